/** A finished URL used again, whoever takes the PUT. */
import { expectAlreadyThere, expectStatus } from '../expect.ts';
import { makeNode } from '../node-bytes.ts';
import type { CheckContext } from '../suite.ts';

/** Whatever its body, before the lease that publishes and after it. */
export async function replayedPuts({ client, target }: CheckContext): Promise<void> {
  const { node, upload } = await client.startUpload();
  expectStatus(await client.put(upload, node.bytes), 200);
  const refuse = async (when: string) => {
    for (const bytes of [node.bytes, makeNode().bytes, new Uint8Array()]) {
      expectAlreadyThere(target.uploadKind, await client.put(upload, bytes), when);
    }
  };
  await refuse('before the lease');
  await client.expectLease(node.hash, 'ready');
  await refuse('after publication');
  await client.expectContent(node, 'content after replayed PUTs');
}
