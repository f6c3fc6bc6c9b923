import { expect, test } from 'bun:test';
import { type Shape, takeShape } from './closed-shape.ts';

test('a list is no object, even one whose fields are all optional', () => {
  const shape: Shape<{ readonly note?: string }> = {
    note: (value) => value === undefined || typeof value === 'string',
  };
  expect(takeShape({}, shape)).toBeDefined();
  for (const other of [[], null, undefined, 'text', 1, { other: 1 }])
    expect(takeShape(other, shape)).toBeUndefined();
});
