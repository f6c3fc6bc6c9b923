/** Tells operators what is damaged, because they can repair it. Clients of the Space API learn only that something is. */
import { ApiError } from '@holdfast/protocol';
import { isDamage } from '../core/store-failure.ts';
import { OperatorError } from './problem.ts';

export async function namingDamage<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (isDamage(error)) throw new OperatorError('SERVICE_UNAVAILABLE', nameOf(error), { cause: error });
    if (!(error instanceof ApiError && isDamage(error.cause))) throw error;
    throw new OperatorError('SERVICE_UNAVAILABLE', `${error.message} (${nameOf(error.cause)})`, {
      cause: error,
    });
  }
}

export const nameOf = (damage: unknown): string => (damage as Error).message;
