/** The server's log: JSON lines on stderr. Nothing that holds a token, a signature or a key is ever passed to it. */
import { type LogFn, type Logger, pino } from 'pino';
import { LogOutput } from './log-output.ts';
import { LogRepeats, type WriteLine } from './log-repeats.ts';

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export type Log = Logger;

/** Repeated lines are counted. A reader that does not read loses lines and holds up nobody; `noteDropped` is told of each. */
export function openLog(
  level: LogLevel,
  fields: Readonly<Record<string, unknown>> = {},
  noteDropped: (lines: number) => void = () => undefined,
): Log {
  const repeats = new LogRepeats(10_000);
  const output = new LogOutput({
    fd: 2, // stderr
    noteDropped,
    describeGap: (dropped) => gapLine(fields, dropped),
  });
  process.once('exit', () => {
    repeats.flush();
    output.writeAtExit();
  });
  return pino(
    {
      level,
      base: { pid: process.pid, ...fields },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      hooks: {
        logMethod(line, write, levelNumber) {
          const writeLine: WriteLine = (repeated) => {
            write.apply(this, repeated === undefined ? line : withCount(line, repeated));
          };
          repeats.take(kindOf(line, levelNumber), writeLine, findFamily(line, levelNumber));
        },
      },
    },
    output,
  );
}

function gapLine(fields: Readonly<Record<string, unknown>>, dropped: number): string {
  const line = {
    ...{ level: 'warn', time: new Date().toISOString(), pid: process.pid, ...fields, dropped },
    msg: 'lines of the log are missing here: its reader took them too slowly',
  };
  return `${JSON.stringify(line)}\n`;
}

type Line = Parameters<LogFn>;

/** Fields that may differ among lines of one kind. In the text of errors names, paths and numbers may differ too. */
const OWN_FIELDS: ReadonlySet<string> = new Set(['requestId']);
const DETAIL = /'[^']*'|"[^"]*"|\/\S+|[0-9a-f]{8,}|\d+/gi;

function kindOf([fields, message]: Line, level: number): string {
  if (typeof fields !== 'object' || fields === null) return `${level} ${fields}`;
  if (fields instanceof Error) return `${level} ${textOf(fields)} ${message}`;
  const parts = Object.entries(fields).filter(([name]) => !OWN_FIELDS.has(name));
  return [level, message, ...parts.map(([name, value]) => `${name}=${textOf(value)}`)].join(' ');
}

/** Groups the lines that name a node: they differ in little else. */
function findFamily([fields, message]: Line, level: number): string | undefined {
  const isOfNode = typeof fields === 'object' && fields !== null && 'hash' in fields;
  return isOfNode ? `${level} ${message}` : undefined;
}

function textOf(value: unknown): string {
  if (value instanceof Error) return `${value.name}: ${withoutDetail(value.message)}`;
  return Array.isArray(value) ? value.map((each) => withoutDetail(String(each))).join('; ') : String(value);
}

function withoutDetail(text: string): string {
  return text.replace(DETAIL, '#');
}

function withCount([fields, ...rest]: Line, repeated: number): Line {
  if (typeof fields === 'object' && fields !== null) {
    const own = fields instanceof Error ? { err: fields } : fields;
    return [{ ...own, repeated }, ...rest] as Line;
  }
  return [{ repeated }, fields, ...rest] as unknown as Line;
}

/** The messages of an error and its causes, outermost first. No stacks: while an engine is away there are too many lines. */
export function reasonsOf(error: unknown): string[] {
  const reasons: string[] = [];
  for (let each = error; each !== undefined && reasons.length < 5; ) {
    reasons.push(each instanceof Error ? each.message : String(each));
    each = each instanceof Error ? each.cause : undefined;
  }
  return reasons;
}
