import { expect, test } from 'bun:test';
import { CliError } from '../cli-error.ts';
import { ComparedSoFar } from './diff.ts';

test('a comparison of trees that few nodes make endless ends, and says why', () => {
  const said = new ComparedSoFar({ warn: () => undefined }, 3);
  said.compared(undefined);
  said.differs(undefined);
  said.differs(undefined);
  expect(() => said.compared(undefined)).toThrow(CliError);
  expect(() => said.differs(undefined)).toThrow('more than 3 entries');
});
