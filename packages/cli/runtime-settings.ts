/** Variables of the runtime, read when it starts. A user's own stand. `bin/holdfast` sets the same: starting twice costs a fifth. */

/** Bun works on files with one thread per core: on two cores two fsyncs would hold up every other file of a server. */
const FILE_THREADS = 8;

type Environment = Readonly<Record<string, string | undefined>>;

/** The variables that this command line still needs; none where the process has been started with them. */
export function planRuntimeSettings(
  args: readonly string[],
  environment: Environment,
): Record<string, string> {
  const wanted: Record<string, number> = {
    // The slowest compiler waits sixteen times as long: for a push it took a sixth of the server's CPU and gave nothing back in
    // time.
    BUN_JSC_thresholdForFTLOptimizeAfterWarmUp: 1_000_000,
  };
  // The less memory the collector believes in, the earlier it begins: a pull of 10,000 files took 180 MiB instead of 215.
  if (args[0] === 'pull') wanted.BUN_JSC_forceRAMSize = 512 * 1024 * 1024;
  // A gateway of 100 clients, some with large files, took 180 MiB with this size, 212 with twice as much and 385 without.
  if (['gateway', 'mount', 'mcp'].includes(args[0] ?? '')) wanted.BUN_JSC_forceRAMSize = 64 * 1024 * 1024;
  // One of them always waits for the kernel.
  if (args[0] === 'mount') wanted.UV_THREADPOOL_SIZE = FILE_THREADS;
  if (args[0] === 'serve') {
    const isOnS3 = [...args, environment.HOLDFAST_CONTENT ?? ''].some((word) => word.includes('s3://'));
    // Bun's allocator gives what is freed back to the system within a tenth of a second; the next answers then have their pages
    // made and zeroed again: a tenth of the CPU time of a read of 4 KiB, and a third where content comes from S3, up to 8 MiB of
    // it in memory for each answer. Kept for so long, memory that is in use stays, and a server at rest gives it back.
    const keptMs = isOnS3 ? 60_000 : 1000;
    // The allocator has two ways of giving memory back.
    wanted.MIMALLOC_PURGE_DELAY = keptMs;
    wanted.MIMALLOC_PURGE_HOLES_MIN_INTERVAL = keptMs;
    wanted.UV_THREADPOOL_SIZE = FILE_THREADS;
  }
  const missing = Object.entries(wanted).filter(([name]) => !environment[name]);
  return Object.fromEntries(missing.map(([name, value]) => [name, String(value)]));
}
