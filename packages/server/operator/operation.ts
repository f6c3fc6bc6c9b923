/** One description of an operation serves the listener, the channel, a command without a server, and the OpenAPI document. */
import type { JsonSchema } from '@holdfast/protocol';
import type { Core } from '../core/core.ts';
import type { ServedDeployment, SharedSecret } from '../deployment/deployment.ts';
import type { DeploymentPlace } from '../deployment/place.ts';
import type { Registry } from '../deployment/registry.ts';
import type { Log } from '../log.ts';
import type { Fields, Parsed } from './fields.ts';
import type { LiveServer } from './live-server.ts';
import type { Right } from './rights.ts';

export interface OperatorContext {
  readonly place: DeploymentPlace;
  readonly deployment: ServedDeployment;
  readonly core: Core;
  readonly registry: Registry;
  /** the key that signs upload URLs and cursors */
  readonly secret: SharedSecret;
  readonly log: Log;
  /** the serving process; undefined if a command opened the deployment itself */
  readonly live: LiveServer | undefined;
}

export interface OperationCall extends OperatorContext {
  /** aborts when the caller disconnects: long work then ends early and keeps its results so far */
  readonly signal: AbortSignal;
  /** Reports the progress of long work in one line. May be called at any rate. */
  readonly report: (progress: string) => void;
}

export interface Caller {
  /** aborts when the caller disconnects */
  readonly signal: AbortSignal;
  /** called with progress now and then */
  readonly onProgress?: ((progress: string) => void) | undefined;
}

export interface Operation<F extends Fields = Fields, O = unknown> {
  /** GET reads and takes a query; POST changes or runs long, and takes a JSON object */
  readonly method: 'GET' | 'POST';
  /** under /operator/v1/, without parameters */
  readonly path: string;
  readonly summary: string;
  /** the right that a token needs; a token with the right to read may call every GET too */
  readonly right: Right;
  /** whether the input itself proves the right to call it, so no token is needed */
  readonly isOpen?: true;
  readonly input: F;
  readonly output: JsonSchema;
  /** Throws OperatorError or another ServeError (409; 400 for ConfigError, 404 for NotFoundError), with a one-line message. */
  run(call: OperationCall, input: Parsed<F>): Promise<O>;
}

export function operation<F extends Fields, O>(described: Operation<F, O>): Operation<F, O> {
  return described;
}

export interface PartCalls {
  readonly apps: Pick<OperationCall, 'registry'>;
  readonly secret: Pick<OperationCall, 'secret'>;
}

interface PartOperation<P extends keyof PartCalls, F extends Fields, O> extends Omit<Operation<F, O>, 'run'> {
  run(call: PartCalls[P], input: Parsed<F>): Promise<O>;
}

/** For an operation that needs only one part: without a server a command opens that alone, also beside other processes. */
export function partOperation<const P extends keyof PartCalls, F extends Fields, O>(
  needs: P,
  described: PartOperation<P, F, O>,
): Operation<F, O> & { readonly needs: P } {
  return { ...described, needs };
}
