/** The server's log: JSON lines on stderr. Nothing that holds a token, a signature or a key is ever passed to it. */
import { type Logger, pino } from 'pino';
import type { LogLevel } from './config.ts';

export type Log = Logger;

const STDERR = 2;

/** Written at once: a line about the end of the process must not be lost with it. */
export function openLog(level: LogLevel, fields: Readonly<Record<string, unknown>> = {}): Log {
  return pino(
    {
      level,
      base: { pid: process.pid, ...fields },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    pino.destination({ fd: STDERR, sync: true }),
  );
}
