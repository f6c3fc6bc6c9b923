/** Carries errors between threads with their class, which decides the answer and which a plain copy would lose. */
import { ApiError } from '@holdfast/protocol';
import { OnlyPlanned } from '../../../core/collect/plan-gc.ts';
import { CounterBroken, InvariantViolation } from '../../../core/invariant.ts';
import { RowDamaged, StoreUnavailable } from '../../../core/store-failure.ts';

/** The classes that callers tell apart. Other errors arrive as plain errors with their name. */
const CLASSES: readonly (new (...args: never[]) => Error)[] = [
  ApiError,
  CounterBroken,
  InvariantViolation,
  OnlyPlanned,
  RowDamaged,
  StoreUnavailable,
];

export interface PackedError {
  readonly className: string;
  readonly message: string;
  readonly stack: string | undefined;
  readonly cause: PackedError | undefined;
  /** name, codes, headers and the like */
  readonly fields: Readonly<Record<string, unknown>>;
}

export function packError(error: unknown): PackedError {
  if (!(error instanceof Error)) return packError(new Error(String(error)));
  const { message, stack, cause, ...fields } = error;
  return {
    className: error.constructor.name,
    message: error.message,
    stack: error.stack,
    cause: error.cause === undefined ? undefined : packError(error.cause),
    fields: { ...fields, name: error.name },
  };
}

export function unpackError({ className, message, stack, cause, fields }: PackedError): Error {
  const error = new Error(message, cause === undefined ? undefined : { cause: unpackError(cause) });
  const known = CLASSES.find(({ name }) => name === className);
  if (known !== undefined) Object.setPrototypeOf(error, known.prototype);
  return Object.assign(error, fields, { stack });
}
