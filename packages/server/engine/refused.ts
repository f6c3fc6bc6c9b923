/** The error of a store that is not opened: it is not fit, lacks something, or is in use. */
import { ServeError } from '../errors.ts';

/** Waiting does not help. The message is a sentence for the operator: what is wrong and what to do. It holds no secrets. */
export class EngineRefused extends ServeError {
  override readonly name = 'EngineRefused';
}
