/** The SDK of the Space API: zero dependencies, web standards only. */
export type {
  GcResult,
  Hash,
  Health,
  LeaseResponse,
  NodeDescription,
  NodeMetadata,
  NodeState,
  Rejection,
  RootRefItem,
  RootRefPage,
  SpaceUsage,
  UpdateRootRefsResponse,
  UploadInstruction,
} from '@holdfast/protocol';
export { type Client, type ClientOptions, createClient } from './client.ts';
export type { ContentRange, NodeContent } from './content.ts';
export type { Clock } from './deadline.ts';
export {
  CasError,
  type CasErrorCode,
  type ClientErrorCode,
  type RequestOperation,
  VerificationError,
} from './errors.ts';
export type { Timeouts } from './limits.ts';
export type { CallOptions } from './operations.ts';
export type { NewNode, PutOptions, PutResult } from './put-node.ts';
export type { RetryPolicy } from './retry.ts';
export type { RootRefsOptions } from './root-ref-pages.ts';
export type { Sha256 } from './sha256.ts';
export type { FetchFunction } from './transport.ts';
export type { OpenNode, VerifiedNode } from './verified-read.ts';
