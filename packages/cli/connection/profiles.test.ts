import { afterAll, expect, test } from 'bun:test';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CliError } from '../cli-error.ts';
import { readProfiles, writeProfiles } from './profiles.ts';

const folder = mkdtempSync(join(tmpdir(), 'holdfast-profiles-'));
afterAll(() => rmSync(folder, { recursive: true }));
const environment = { XDG_CONFIG_HOME: folder };
const path = join(folder, 'holdfast', 'profiles.json');
const TOKEN = 'aaa.bbb.ccc';

function failureOf(content: Uint8Array | string): unknown {
  writeFileSync(path, content);
  try {
    readProfiles(environment);
    return undefined;
  } catch (error) {
    return error;
  }
}

test('a file with any wrong bit, cut or doubled sends no token anywhere, and an older one is read', () => {
  const profile = { url: 'http://127.0.0.1:8420', app: 'demo', space: 'home', token: TOKEN };
  const profiles = { default: 'work', byName: new Map([['work', profile]]) };
  writeProfiles(profiles, environment);
  expect(readProfiles(environment)).toEqual(profiles);
  const right = readFileSync(path);
  const damaged = [right.subarray(0, -3), Buffer.concat([right, right]), ''];
  for (let bit = 0; bit < right.length * 8; bit += 1) {
    const bytes = Buffer.from(right);
    bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
    damaged.push(bytes);
  }
  const end = right.length - 1;
  for (const [index, content] of damaged.entries()) {
    const failure = failureOf(content);
    // The newline at the end says nothing.
    if (failure === undefined && Buffer.from(content).subarray(0, end).equals(right.subarray(0, end)))
      continue;
    expect([index, failure instanceof CliError]).toEqual([index, true]);
    expect(String(failure)).not.toContain(TOKEN);
  }
  const { sum: _, ...older } = JSON.parse(right.toString());
  expect(failureOf(JSON.stringify(older))).toBeUndefined();
});
