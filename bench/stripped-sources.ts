/** A copy of the checkout whose server counts nothing and shares nothing out, for the bench alone: what both cost is the difference. */
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

interface Edit {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

const EDITS: readonly Edit[] = [
  ...[
    ['  add(amount = 1): void {\n    this.value += amount;', '  add(_ = 1): void {\n'],
    ['  set(value: number): void {\n    this.value = value;', '  set(_: number): void {\n'],
    ['  add(amount: number): void {\n    this.value += amount;', '  add(_: number): void {\n'],
    ['  observe(value: number): void {\n', '  observe(value: number): void {\n    if (value > -1) return;\n'],
  ].map(([from = '', to = '']) => ({ file: 'packages/server/metrics/metric.ts', from, to })),
  {
    file: 'packages/server/http/request-report.ts',
    from: 'durationMs: number): void {\n',
    to: 'durationMs: number): void {\n    if (status > 0) return;\n',
  },
  {
    file: 'packages/server/http/handler.ts',
    from: '  if (!requests.hasPlenty)\n',
    to: '  if (requests !== undefined) return answer();\n  if (!requests.hasPlenty)\n',
  },
];

/** Makes the copy in `folder`, whose packages are its own and whose dependencies are those of `checkout`. */
export function copyStripped(checkout: string, folder: string): void {
  mkdirSync(join(folder, 'node_modules', '@holdfast'), { recursive: true });
  for (const name of ['packages', 'bin'])
    cpSync(join(checkout, name), join(folder, name), { recursive: true });
  for (const name of readdirSync(join(checkout, 'node_modules'))) {
    if (name !== '@holdfast')
      symlinkSync(join(checkout, 'node_modules', name), join(folder, 'node_modules', name));
  }
  for (const name of readdirSync(join(checkout, 'packages'))) {
    symlinkSync(join(folder, 'packages', name), join(folder, 'node_modules', '@holdfast', name));
  }
  for (const { file, from, to } of EDITS) {
    const path = join(folder, file);
    const text = readFileSync(path, 'utf8');
    if (text.split(from).length !== 2)
      throw new Error(`${file} has changed: bench/stripped-sources.ts does not find ${JSON.stringify(from)}`);
    writeFileSync(path, text.replace(from, to));
  }
}
