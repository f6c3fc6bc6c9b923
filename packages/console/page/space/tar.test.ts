import { expect, test } from 'bun:test';
import { concatBytes } from '@holdfast/protocol';
import { type TarEntry, tarEnd, tarHead, tarPadding } from './folder-download.tsx';

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
const plain = { kind: 'file', isExecutable: false, mtime: 1_700_000_000 } as const;

function archive(entries: readonly (TarEntry & { readonly content?: string })[]): Uint8Array {
  const parts = entries.flatMap((entry) => {
    const content = bytesOf(entry.content ?? '');
    return [tarHead(entry), content, tarPadding(content.length)];
  });
  return concatBytes([...parts, tarEnd()]);
}

test('tar reads what is written: names of any length, links, modes and times', async () => {
  const long = `${'deep/'.repeat(30)}näme.txt`;
  const made = archive([
    { ...plain, path: bytesOf('top'), kind: 'directory', bytes: 0, isExecutable: true },
    { ...plain, path: bytesOf('top/a b.txt'), bytes: 6, content: 'hello\n' },
    { ...plain, path: bytesOf('top/run'), bytes: 512, content: '#'.repeat(512), isExecutable: true },
    { ...plain, path: bytesOf(`top/${long}`), bytes: 1, content: 'x' },
    {
      ...plain,
      path: bytesOf('top/link'),
      kind: 'symlink',
      bytes: 0,
      target: bytesOf(`../${'t'.repeat(120)}`),
    },
  ]);
  const child = Bun.spawn(['tar', '--utc', '--full-time', '--numeric-owner', '-tvf', '-'], {
    ...{ stdin: made, stdout: 'pipe', stderr: 'pipe', env: { ...process.env, LC_ALL: 'C.UTF-8' } },
  });
  const listed = (await new Response(child.stdout).text()).trimEnd().split('\n');
  expect([await child.exited, await new Response(child.stderr).text()]).toEqual([0, '']);
  expect(listed.map((line) => line.replaceAll(/ +/g, ' '))).toEqual([
    'drwxr-xr-x 0/0 0 2023-11-14 22:13:20 top/',
    '-rw-r--r-- 0/0 6 2023-11-14 22:13:20 top/a b.txt',
    '-rwxr-xr-x 0/0 512 2023-11-14 22:13:20 top/run',
    expect.stringContaining(`2023-11-14 22:13:20 top/${'deep/'.repeat(30)}n`),
    `lrwxr-xr-x 0/0 0 2023-11-14 22:13:20 top/link -> ../${'t'.repeat(120)}`,
  ]);
});
