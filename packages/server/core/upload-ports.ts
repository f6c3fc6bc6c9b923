/** How bytes get into a store of bytes: through our own upload target, or straight to the store by a signed URL. */
import type { Hash } from '@holdfast/protocol';
import type { Admit, Generation, Space, UploadEvidence } from './model.ts';
import type { PackReceiver } from './pack-ports.ts';

/** ms; a direct upload has ended this long after its URL expired. The sweep of strays finds the object of a slower one. */
export const PUT_DURATION_MS_MAX = 600_000;

export type UploadKind = ContentUploads['kind'];

export type ContentUploads =
  | { readonly kind: 'server'; readonly receiver: UploadReceiver }
  | {
      readonly kind: 'direct';
      signUpload(
        space: Space,
        generation: Generation,
        life: UploadUrlLife,
        mediaType: string,
      ): Promise<SignedUpload>;
      /** Bytes of the object that was uploaded; undefined: there is none. */
      findBytes(space: Space, generation: Generation): Promise<number | undefined>;
    };

/** Instants by the rows' clock; the end is a whole second. */
export interface UploadUrlLife {
  readonly issuedAt: number;
  readonly expiresAt: number;
}

export interface SignedUpload {
  readonly url: string;
  readonly headers: Record<string, string>;
  /** ms; earlier than `UploadUrlLife` says, because what signs it ends before; left out: as that says */
  readonly expiresAt?: number;
}

/** The function reads a small body whole: called once the generation counts as being received; the receiver owns the result. */
export type UploadBody = ReadableStream<Uint8Array> | Uint8Array | (() => Promise<Uint8Array>);

/** Receives the bytes of uploads in this server, and knows which generations are being received right now. */
export interface UploadReceiver extends PackReceiver {
  /**
   * Streams `body` once, with at most 8 MiB of it in memory: hashes it, parses the header, makes the integrity record, stages the
   * bytes. Stops reading past `limits.nodeBytesMax` (evidence NODE_TOO_LARGE, nothing staged). Rejects and leaves nothing if the
   * body breaks off. Meanwhile the generation counts as being received, with `declaredLength` reserved bytes.
   */
  receive(
    target: { readonly space: Space; readonly generation: Generation; readonly hash: Hash },
    body: UploadBody,
    declaredLength: number | undefined,
    limits: NodeLimits,
    admit?: Admit,
  ): Promise<StagedUpload>;
  isReceiving(generation: Generation): boolean;
  /** declared lengths of what is being received, by all processes */
  reservedBytes(space: Space): number;
  /** The same as quotas count it: at its limit where no length was declared. */
  heldBytes(space: Space): number;
  heldBytesOfApp(appId: string, by: 'all' | 'other processes'): number;
}

/** Bytes that are received but not yet the object of their generation. */
export interface StagedUpload {
  readonly evidence: UploadEvidence;
  /** present when the bytes fit the metadata store's inline limit: the caller stores them as a content row */
  readonly inlineBytes: Uint8Array | undefined;
  /** Makes the staged object durable under its write-once key. Resolves false when the key is already taken. */
  seal(): Promise<boolean>;
  /** Always the last call: drops what was staged and not sealed. A sealed object stays: records decide about it (`setDiscard`). */
  release(): Promise<void>;
}

export interface NodeLimits {
  /** largest canonical node, bytes; exactly this is accepted */
  readonly nodeBytesMax: number;
}
