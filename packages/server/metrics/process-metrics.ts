/** The kernel's data about this process, under the names that Prometheus clients use. */

import { readdirSync, readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { KIB_BYTES } from '@holdfast/protocol';
import { EVENT_LOOP_LAG, METRICS } from './server-metrics.ts';

const CPU_SECONDS = METRICS.counter(
  'process_cpu_seconds_total',
  'Time on a processor, of user and system together, in seconds',
);
const RESIDENT_BYTES = METRICS.gauge('process_resident_memory_bytes', 'Memory that is resident');
const VIRTUAL_BYTES = METRICS.gauge('process_virtual_memory_bytes', 'Memory that is mapped');
const OPEN_FILES = METRICS.gauge('process_open_fds', 'Files, sockets and pipes that are open');
const OPEN_FILES_MAX = METRICS.gauge('process_max_fds', 'Files that may be open', { merge: 'min' });
const START_TIME = METRICS.gauge('process_start_time_seconds', 'When the process began, since the epoch', {
  merge: 'min',
});

const STARTED_AT_SECONDS = (Date.now() - performance.now()) / 1000;

/** Reads them on every scrape from now on. Returns a function that stops it. */
export function watchProcess(): () => void {
  const delay = monitorEventLoopDelay({ resolution: 20 });
  delay.enable();
  const stop = METRICS.readBefore(() => {
    readUsage();
    readProc();
    EVENT_LOOP_LAG.set(delay.max / 1e9);
    delay.reset();
  });
  return () => {
    stop();
    delay.disable();
  };
}

function readUsage(): void {
  const { user, system } = process.cpuUsage();
  CPU_SECONDS.raiseTo((user + system) / 1e6);
  RESIDENT_BYTES.set(process.memoryUsage.rss());
  START_TIME.set(STARTED_AT_SECONDS);
}

/** Without /proc the values stay zero. */
function readProc(): void {
  try {
    const status = readFileSync('/proc/self/status', 'utf8');
    VIRTUAL_BYTES.set(Number(/^VmSize:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * KIB_BYTES);
    OPEN_FILES.set(readdirSync('/proc/self/fd').length);
    const limit = /^Max open files\s+(\d+|unlimited)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    OPEN_FILES_MAX.set(limit === 'unlimited' ? Number.POSITIVE_INFINITY : Number(limit ?? 0));
  } catch {
    // Nothing else depends on these numbers.
  }
}
