/**
 * A rule of docs/design.md that the data itself contradicts. It ends the process: going on could turn one wrong row into
 * lost bytes, and a restart begins from what is durable.
 */
export class InvariantViolation extends Error {
  override readonly name = 'InvariantViolation';
}

export function assertInvariant(holds: boolean, rule: string): asserts holds {
  if (!holds) throw new InvariantViolation(`broken invariant: ${rule}`);
}
