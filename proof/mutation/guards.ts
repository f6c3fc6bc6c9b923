/** Guards of the server's source: what refuses, rechecks or makes durable. Each can be taken out by itself. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../../test/support/server-process.ts';

export interface Guard {
  /** the file, the line as it stands, and how many alike come before it */
  readonly id: string;
  /** within the repository */
  readonly file: string;
  /** from 1 */
  readonly line: number;
  /** which of the guards of the line */
  readonly part: number;
  /** whether `watchedSource` notes when it makes a difference */
  readonly isWatched: boolean;
  /** the file without the guard */
  readonly mutant: string;
}

/** Where the rules decide what goes, and the statements that carry it out. */
const RULES = 'packages/server/core/{*,{read,refs,collect,lease,packs}/*}.ts';
const STATEMENTS = 'packages/server/engine/sqlite/{statements,packs/pack-statements}.ts';
const DISK = 'packages/server/engine/disk/*.ts';

/** A condition that ends or skips the work, on one line or before a block. */
const EARLY_END = /^\s*if \((.*)\) (return|throw|continue|break)\b.*;$/;
const ASSERTION = /^\s*(await )?assert\w+\(.*\);$/;
const SYNC = /^(\s*)(await )?[\w.#]*(fsync|datasync|syncFolder|sync)\w*\(.*\);$/i;
const CONDITION = / AND (?:(?! AND |'|`|\)).)+/g;

const isRule = (file: string): boolean => file.includes('/core/');

export function listGuards(root = ROOT): Guard[] {
  const guards: Guard[] = [];
  const add = (pattern: string, take: (line: string) => readonly string[]): void => {
    for (const file of filesOf(root, pattern)) guards.push(...guardsOf(root, file, take));
  };
  add(RULES, (line) => {
    if (ASSERTION.test(line)) return [''];
    const condition = EARLY_END.exec(line)?.[1];
    if (condition === undefined) return [];
    return [...withoutParts(condition), 'false'].map((other) => line.replace(condition, () => other));
  });
  add(STATEMENTS, (line) => (/UPDATE|DELETE/.test(line) ? withoutConditions(line) : []));
  add(DISK, (line) => (SYNC.test(line) ? [''] : []));
  return guards;
}

/** Those whose guards can be watched. */
export const listGuardedFiles = (root: string): string[] => filesOf(root, RULES);

function filesOf(root: string, pattern: string): string[] {
  return globSync(pattern, { cwd: root })
    .sort()
    .filter((file) => !file.endsWith('.test.ts'));
}

/** The same lines. `noteGuard__(line, condition, conditions without a part)` is called, which answers with the condition. */
export function watchedSource(source: string): string {
  const lines = source.split('\n').map((line, at) => {
    const note = `noteGuard__(${at + 1}, `;
    if (ASSERTION.test(line)) return `try { ${line} } catch (error) { ${note}true, 0); throw error; }`;
    const condition = EARLY_END.exec(line)?.[1];
    if (condition === undefined) return line;
    const others = withoutParts(condition);
    // A call may change something, so it is not made twice: any part may matter then.
    const parts = condition.includes('(') ? others.length : `[${others.map((other) => `() => ${other}`)}]`;
    return line.replace(condition, () => `${note}${condition}, ${parts})`);
  });
  return lines.join('\n');
}

/** One alternative of a condition that ends the work is taken out at a time. */
function withoutParts(condition: string): string[] {
  const parts = condition.split(' || ');
  if (parts.length < 2 || parts.some((part) => part.split('(').length !== part.split(')').length)) return [];
  return parts.map((_, left) => parts.filter((__, index) => index !== left).join(' || '));
}

function withoutConditions(line: string): string[] {
  const from = line.lastIndexOf('WHERE');
  if (from < 0) return [];
  return [...line.slice(from).matchAll(CONDITION)].map(({ 0: condition, index }) => {
    const at = from + index;
    // Its parameter stays: a statement with one less would fail for that alone.
    const parameter = /\?\d+/.exec(condition)?.[0];
    const instead = parameter === undefined ? '' : ` AND ${parameter} IS ${parameter}`;
    return line.slice(0, at) + instead + line.slice(at + condition.length);
  });
}

function guardsOf(root: string, file: string, take: (line: string) => readonly string[]): Guard[] {
  const lines = readFileSync(join(root, file), 'utf8').split('\n');
  const seen = new Map<string, number>();
  return lines.flatMap((line, at) =>
    take(line).map((instead, part) => {
      const text = `${file}: ${line.trim()}`;
      const earlier = seen.get(`${text} ${part}`) ?? 0;
      seen.set(`${text} ${part}`, earlier + 1);
      const mutant = [...lines.slice(0, at), instead, ...lines.slice(at + 1)].join('\n');
      return {
        id: `${text} [${part}${earlier > 0 ? `, ${earlier}` : ''}]`,
        file,
        line: at + 1,
        part,
        isWatched: isRule(file),
        mutant,
      };
    }),
  );
}
