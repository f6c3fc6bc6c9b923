/** The requests of the probe, as a client, a stranger or a rival would send them, to keys of its own. */
import { randomBytes } from 'node:crypto';
import { NODE_MEDIA_TYPE } from '@holdfast/protocol';
import type { SignedUpload } from '../../core/upload-ports.ts';
import { AttemptFailed, PASSING_STATUSES, RequestRefused } from './failure.ts';
import { DELETE_BATCH_MAX, type S3Limits } from './limits.ts';
import type { ObjectKeys } from './object-key.ts';
import type { SignedRequest, UploadUrls } from './request-signer.ts';
import type { S3Client } from './s3-client.ts';
import { parseErrorCode } from './xml-answers.ts';

const PROBE_URL_MS = 60_000;

export interface ProbeParts {
  readonly client: S3Client;
  readonly keys: ObjectKeys;
  readonly uploadUrls: UploadUrls;
  readonly limits: S3Limits;
}

export interface ProbedObject {
  readonly bytes: Uint8Array;
  readonly etag: string | null;
}

interface ProbeAnswer {
  readonly status: number;
  /** the store's error code, if it gave one */
  readonly code: string | undefined;
}

export class ProbeRequests {
  readonly #parts: ProbeParts;
  readonly #keysUsed: string[] = [];

  constructor(parts: ProbeParts) {
    this.#parts = parts;
  }

  /** Every key that the probe may have written, to be deleted at the end. */
  get keysUsed(): readonly string[] {
    return this.#keysUsed.slice(0, DELETE_BATCH_MAX);
  }

  newKey(): string {
    const time = this.#parts.client.now().toString(16).padStart(12, '0');
    const key = this.#parts.keys.probeOf(time + randomBytes(10).toString('hex'));
    this.#keysUsed.push(key);
    return key;
  }

  newBytes(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(randomBytes(1024));
  }

  /** An upload URL that expired `sinceMs` ago; it is still valid if that is negative. */
  sign(key: string, sinceMs = -PROBE_URL_MS): Promise<SignedUpload> {
    const expiresAt = this.#parts.client.now() - sinceMs;
    return this.#parts.uploadUrls.sign(
      key,
      { issuedAt: expiresAt - PROBE_URL_MS, expiresAt },
      NODE_MEDIA_TYPE,
      'servers',
    );
  }

  /** Sends a PUT. Resolves with the status. */
  async put(target: SignedUpload, body: Uint8Array<ArrayBuffer>): Promise<number> {
    return (await this.#put(target, body)).status;
  }

  /** Uploads as clients do. Rejects with RequestRefused if the store does not take it. */
  async upload(key: string, body: Uint8Array<ArrayBuffer>): Promise<void> {
    const { status, code } = await this.#put(await this.sign(key), body);
    if (status >= 300) throw new RequestRefused('an upload by its URL', status, code);
  }

  /** Sends a GET without a signature. Resolves with the status. */
  readAsStranger(key: string): Promise<number> {
    return this.sign(key)
      .then(({ url }) =>
        this.#send({ method: 'GET', url: withoutQuery(url), headers: { 'accept-encoding': 'identity' } }),
      )
      .then(({ status }) => status);
  }

  /** The object under the key; `undefined`: there is none. */
  find(key: string): Promise<ProbedObject | undefined> {
    return this.#parts.client.send({ method: 'GET', key, doing: 'probing the bucket' }, async (answer) => {
      if (answer.status === 404) return undefined;
      if (answer.status !== 200) throw new AttemptFailed(`a read was answered ${answer.status}`);
      const length = Math.min(64 * 1024, Number(answer.headers.get('content-length')));
      return { bytes: await answer.body.readAll(length), etag: answer.headers.get('etag') };
    });
  }

  #put({ url, headers }: SignedUpload, body: Uint8Array<ArrayBuffer>): Promise<ProbeAnswer> {
    return this.#send({ method: 'PUT', url, headers, body });
  }

  async #send(request: SignedRequest): Promise<ProbeAnswer> {
    const { limits, client } = this.#parts;
    for (let attempt = 1; ; attempt += 1) {
      const answer = await client.exchange(request, limits.headMsMax, async ({ response, body }) => {
        const { status } = response;
        const code = status < 300 ? undefined : parseErrorCode(await body.readText(64 * 1024));
        return { status, code };
      });
      const { status, code = '' } = answer;
      if (!PASSING_STATUSES.has(status)) return answer;
      if (attempt === limits.attemptsMax) {
        throw new AttemptFailed(`the object store answered ${`${status} ${code}`.trim()}`);
      }
    }
  }
}

export function withoutQuery(url: string): string {
  return url.slice(0, url.indexOf('?'));
}
