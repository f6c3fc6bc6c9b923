/** Memory that is given back at once: only where nobody else can look at it. */
import { expect, test } from 'bun:test';
import { releaseMemory } from './resident-memory.ts';

test('bytes that have all of their memory give it back, and others stay as they are', () => {
  const whole = new Uint8Array(1000).fill(7);
  releaseMemory(whole);
  expect(whole.length).toBe(0);
  const part = new Uint8Array(1000).fill(7).subarray(0, 999);
  releaseMemory(part);
  expect(part).toEqual(new Uint8Array(999).fill(7));
  const shared = new Uint8Array(new SharedArrayBuffer(1000));
  releaseMemory(shared);
  expect(shared.length).toBe(1000);
});
