/** The error of a store that is not opened: it is not fit, lacks something, or is in use. */
import { ServeError } from '../errors.ts';

/** Waiting does not help (else StoreUnavailable). The message tells the operator what is wrong and what to do, without secrets. */
export class EngineRefused extends ServeError {
  override readonly name = 'EngineRefused';
}
