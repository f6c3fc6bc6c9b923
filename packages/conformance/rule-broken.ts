import type { Answer } from './answer.ts';

/** A rule was broken: what it asks for and what came. */
export class RuleBroken extends Error {
  override readonly name = 'RuleBroken';
  readonly expected: string;
  readonly actual: string;
  readonly answer: Answer | undefined;

  constructor(expected: string, actual: string, answer?: Answer) {
    super(`expected ${expected}, got ${actual}`);
    this.expected = expected;
    this.actual = actual;
    this.answer = answer;
  }
}
