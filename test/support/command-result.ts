/** The outcome of a command that ran to its end. */
export interface CommandResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Reads both pipes while the command runs, so that it never waits for a full one. */
export async function resultOf(
  child: Bun.Subprocess<Bun.SpawnOptions.Writable, 'pipe', 'pipe'>,
): Promise<CommandResult> {
  const [exitCode, stdout, stderr] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { exitCode, stdout, stderr };
}
