/** The embedded upload target: one PUT, of a node or of a pack (docs/api.md, The upload target). */
import type { Core } from '../core.ts';
import { receiveNode } from '../lease/receive-node.ts';
import { getReceiver, type UploadRequest } from '../lease/upload-rules.ts';
import { parseUploadToken } from '../lease/upload-token.ts';
import { receivePack } from './receive-pack.ts';

/** Resolves when the upload is durable. Throws FORBIDDEN (403), CONFLICT (412), PAYLOAD_TOO_LARGE (413). */
export async function receiveUpload(core: Core, request: UploadRequest): Promise<void> {
  getReceiver(core);
  const grant = parseUploadToken(core.signer, request.token);
  const allowed = request.onGrant?.(grant);
  if (allowed !== undefined) await allowed;
  await ('pack' in grant ? receivePack(core, request, grant) : receiveNode(core, request, grant));
}
