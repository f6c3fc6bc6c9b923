/**
 * What an operation is. One description serves the listener for operators, the channel in a data folder, a command without a
 * server, and the OpenAPI document.
 */
import type { JsonSchema } from '@holdfast/protocol';
import type { Core } from '../core/core.ts';
import type { ServedDeployment, SharedSecret } from '../deployment/deployment.ts';
import type { DeploymentPlace } from '../deployment/place.ts';
import type { Registry } from '../deployment/registry.ts';
import type { Log } from '../log.ts';
import type { Fields, Parsed } from './fields.ts';
import type { LiveServer } from './live-server.ts';
import type { Right } from './rights.ts';

/** The subject of an operation: the open deployment, wherever it was opened. */
export interface OperatorContext {
  readonly place: DeploymentPlace;
  readonly deployment: ServedDeployment;
  readonly core: Core;
  /** administration of the Apps */
  readonly registry: Registry;
  /** what upload URLs and cursors are signed with */
  readonly secret: SharedSecret;
  readonly log: Log;
  /** what only a server has; undefined: a command opened the deployment itself */
  readonly live: LiveServer | undefined;
}

/** One call of an operation. */
export interface OperationCall extends OperatorContext {
  /** aborts when the caller has gone away: long work ends early and leaves what it did */
  readonly signal: AbortSignal;
  /** Says how far long work is, in one line for a person. May be called as often as one likes. */
  readonly report: (progress: string) => void;
}

/** Who waits for an operation. */
export interface Caller {
  /** aborts when the caller has gone away */
  readonly signal: AbortSignal;
  /** is told from time to time how far the work is */
  readonly onProgress?: ((progress: string) => void) | undefined;
}

export interface Operation<F extends Fields = Fields, O = unknown> {
  /** GET reads and takes a query; POST changes or works long, and takes a JSON object */
  readonly method: 'GET' | 'POST';
  /** under /operator/v1/, without parameters */
  readonly path: string;
  /** one line */
  readonly summary: string;
  /** that a token must have to call it; a token that may read may call every GET too */
  readonly right: Right;
  /** its input itself proves that the caller may do it: no operator token is asked for */
  readonly isOpen?: true;
  readonly input: F;
  /** of the answer */
  readonly output: JsonSchema;
  /**
   * Throws OperatorError, or another ServeError (409, or 400 for a ConfigError, 404 for a NotFoundError), with one line for the
   * operator.
   */
  run(call: OperationCall, input: Parsed<F>): Promise<O>;
}

/** Checks the types of one entry of the table. */
export function operation<F extends Fields, O>(described: Operation<F, O>): Operation<F, O> {
  return described;
}

/** The subject of an operation that needs only a part of the deployment. */
export interface PartCalls {
  readonly apps: Pick<OperationCall, 'registry'>;
  readonly secret: Pick<OperationCall, 'secret'>;
}

interface PartOperation<P extends keyof PartCalls, F extends Fields, O> extends Omit<Operation<F, O>, 'run'> {
  run(call: PartCalls[P], input: Parsed<F>): Promise<O>;
}

/**
 * As `operation`, of an operation that needs only one part. A command without a server opens that part alone, which works beside
 * processes that have the deployment open, and where a server has not been yet.
 */
export function partOperation<const P extends keyof PartCalls, F extends Fields, O>(
  needs: P,
  described: PartOperation<P, F, O>,
): Operation<F, O> & { readonly needs: P } {
  return { ...described, needs };
}
