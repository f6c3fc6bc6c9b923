import { expect, test } from 'bun:test';
import { DoorError } from '../door.ts';
import { parseAddress, parseKey } from './keys.ts';

const SHA = 'a'.repeat(64);
const keyOf = (target: string) => parseKey(parseAddress(target));
const statusOf = (target: string): number => {
  try {
    keyOf(target);
    return 200;
  } catch (error) {
    if (error instanceof DoorError) return error.status;
    throw error;
  }
};

test('each key has a path of its own', () => {
  expect(keyOf('/a/b?x=1')).toEqual({ kind: 'keys', path: 'keys/a%2Fb' });
  expect(keyOf('http://host:1/a%20b')).toEqual({ kind: 'keys', path: 'keys/a%20b' });
  expect(keyOf(`/any/prefix/cas/${SHA}`)).toEqual({ kind: 'cas', path: `cas/${SHA}`, sha256: SHA });
  expect(keyOf(`/p/ac/${SHA}`)).toEqual({ kind: 'ac', path: `ac/p%2F${SHA}` });
  expect(keyOf('/v8/artifacts/h?teamId=t&slug=s')).toEqual({ kind: 'artifacts', path: 'artifacts/t%2Fh' });
  const targets = ['/a', '/a%252Fb', '/a/b', `/${'k'.repeat(256)}`, `/${'k'.repeat(257)}`, '/v8/artifacts/h'];
  const paths = targets.map((target) => keyOf(target).path);
  expect(new Set(paths).size).toBe(targets.length);
  for (const path of paths) expect(path.split('/')[1]?.length).toBeLessThanOrEqual(255);
});

test('what is no key is refused', () => {
  for (const target of [
    'a',
    '/',
    '/a/',
    '/a//b',
    '/./a',
    '/..',
    '/%2e%2e/a',
    '/a%2Fb',
    '/%00',
    '/a#b',
    '/%c3',
  ])
    expect([target, statusOf(target)]).toEqual([target, 400]);
  for (const target of ['/ac', '/cas/', `/cas/${SHA}0`, `/ac/x/${SHA}`, `/p/cas/${SHA.toUpperCase()}`])
    expect([target, statusOf(target)]).toEqual([target, 400]);
  expect([statusOf(`/${'k'.repeat(1024)}`), statusOf(`/${'k'.repeat(1025)}`)]).toEqual([200, 414]);
});
