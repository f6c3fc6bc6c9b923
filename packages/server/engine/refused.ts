/** Why a store is not opened: what it found, what it lacks, or who else has it. */
import { ServeError } from '../errors.ts';

/**
 * Waiting does not help; where it may, a store throws StoreUnavailable. The message is a whole sentence for the operator: what
 * is wrong and what to do. It holds no secrets.
 */
export class EngineRefused extends ServeError {
  override readonly name = 'EngineRefused';
}
