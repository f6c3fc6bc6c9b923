/** `createClient`: one Space of one App behind plain functions. Web standards only: Node ≥ 20, Bun, Deno, browsers. */
import {
  type Hash,
  isPathId,
  NODE_BYTES_MAX_DEFAULT,
  type RootRefPage,
  type UploadInstruction,
} from '@holdfast/protocol';
import { invalidArgument } from './arguments.ts';
import type { Target } from './authorized-plan.ts';
import { BodyPace } from './body-pace.ts';
import { type Bulk, createBulk } from './bulk/bulk.ts';
import { type ClientOptions, CREATE_CLIENT, checkClientOptions, withDefaults } from './client-options.ts';
import { systemClock } from './deadline.ts';
import { GetCalls, getNodes } from './get-calls.ts';
import { TIMEOUTS_DEFAULT } from './limits.ts';
import type { NewNode } from './new-node.ts';
import { type CallOptions, createOperations, type Operations } from './operations.ts';
import { PutCalls, putNodes } from './put-calls.ts';
import { type PutOptions, type PutResult, putSingly } from './put-node.ts';
import { RETRY_POLICY_DEFAULT } from './retry.ts';
import { type RootRefsOptions, rootRefPages } from './root-ref-pages.ts';
import { createSha256 } from './sha256.ts';
import type { Transport } from './transport.ts';
import { checkUpload, uploadAsTold } from './upload-instruction.ts';
import { getNode, type OpenNode, openNode, type VerifiedNode } from './verified-read.ts';

/** The seven operations, health, the requests of Bulk, and the calls that are built from them. Rejects with CasError, or the reason of an aborted signal. */
export interface Client extends Operations {
  /** Many nodes in few requests, where the server offers that. */
  readonly bulk: Bulk;
  /**
   * Stores a node: its bytes are hashed once, uploaded only when the server lacks them, and leased. Calls that overlap travel
   * together where the server has Bulk; each has its own outcome.
   */
  putNode(node: NewNode, options?: PutOptions): Promise<PutResult>;
  /**
   * `putNode` of each, in bounded memory: a generator may make them as they are taken. One result for each, in order. If some fail the
   * others are stored all the same, and then this rejects with the first failure; the same call sends nothing twice.
   */
  putNodes(
    nodes: Iterable<NewNode> | AsyncIterable<NewNode>,
    options?: PutOptions,
  ): Promise<readonly PutResult[]>;
  /**
   * The PUT that a lease asked for: all canonical bytes, to the target exactly as told. `superseded`: the instruction is over
   * (expired, or the upload is finished already). Either way the next lease tells the outcome.
   */
  uploadNode(
    upload: UploadInstruction,
    canonicalBytes: Uint8Array,
    options?: CallOptions,
  ): Promise<'accepted' | 'superseded'>;
  /** The whole node, verified against its hash. Calls that overlap travel together where the server has Bulk. */
  getNode(hash: Hash, options?: CallOptions): Promise<VerifiedNode>;
  /** The nodes in this order, each verified, in few requests where the server has Bulk. One is in memory at a time. */
  getNodes(
    hashes: Iterable<Hash> | AsyncIterable<Hash>,
    options?: CallOptions,
  ): AsyncGenerator<VerifiedNode, void, undefined>;
  /** The node as a stream that ends well only if it matches its hash. */
  openNode(hash: Hash, options?: CallOptions): Promise<OpenNode>;
  /** All pages of root refs as of one revision. */
  rootRefs(options?: RootRefsOptions): AsyncGenerator<RootRefPage, void, undefined>;
}

/** Builds a client; sends nothing. Throws CasError INVALID_ARGUMENT. */
export function createClient(options: ClientOptions): Client {
  checkClientOptions(options);
  const { token } = options;
  const transport = {
    // Called as a free function: browsers refuse `fetch` with another `this`.
    fetch: options.fetch ?? ((url: string, init: RequestInit) => globalThis.fetch(url, init)),
    clock: options.clock ?? systemClock,
    random: options.random ?? Math.random,
    retry: withDefaults(RETRY_POLICY_DEFAULT, options.retry),
    timeouts: withDefaults(TIMEOUTS_DEFAULT, options.timeouts),
    bodyPace: new BodyPace(),
  };
  const target = {
    baseUrl: parseBaseUrl(options.baseUrl),
    appId: checkId('appId', options.appId),
    spaceId: checkId('spaceId', options.spaceId),
    token: typeof token === 'function' ? token : () => token,
  };
  return assemble(transport, target, options);
}

function assemble(transport: Transport, target: Target, options: ClientOptions): Client {
  const operations = createOperations(transport, target, options.contentBytesMax);
  const settings = {
    retry: transport.retry,
    createSha256: options.createSha256 ?? createSha256,
    contentBytesMax: options.contentBytesMax ?? NODE_BYTES_MAX_DEFAULT,
  };
  const bulk = createBulk(transport, target, options);
  const puts = new PutCalls(
    (node, callOptions) => putSingly(transport, operations, node, callOptions),
    bulk,
    transport.clock,
  );
  const gets = new GetCalls(
    (hash, callOptions) => getNode(operations, settings, hash, callOptions),
    bulk,
    settings.contentBytesMax,
  );
  const get = (hash: Hash, callOptions?: CallOptions) => gets.get(hash, callOptions);
  const put = (node: NewNode, callOptions?: PutOptions) => puts.put(node, callOptions);
  return {
    ...operations,
    bulk,
    putNode: put,
    putNodes: (nodes, callOptions) => putNodes(put, nodes, callOptions),
    uploadNode: async (upload, bytes, callOptions) => {
      checkUpload({ name: 'uploadNode', requestOperation: 'uploadNode' }, upload, bytes, callOptions);
      return uploadAsTold(transport, 'uploadNode', upload, bytes, callOptions);
    },
    getNode: get,
    getNodes: (hashes, callOptions) => getNodes({ bulk, getNode: get }, hashes, callOptions),
    openNode: async (hash, callOptions) => openNode(operations, settings, hash, callOptions),
    rootRefs: (callOptions) => rootRefPages(operations, callOptions),
  };
}

function parseBaseUrl(baseUrl: string): string {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  const isWeb = url?.protocol === 'http:' || url?.protocol === 'https:';
  if (
    url === undefined ||
    !isWeb ||
    url.username !== '' ||
    url.password !== '' ||
    url.search !== '' ||
    url.hash !== ''
  ) {
    throw invalidArgument(
      CREATE_CLIENT,
      'baseUrl must be an http or https address without user, query or fragment',
    );
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
}

function checkId(name: 'appId' | 'spaceId', id: string): string {
  if (typeof id === 'string' && isPathId(id)) return id;
  throw invalidArgument(
    CREATE_CLIENT,
    `${name} must have 1 to 256 characters, no control characters, and be neither . nor ..`,
  );
}
