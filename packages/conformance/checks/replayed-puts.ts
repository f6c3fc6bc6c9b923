/** A finished URL used again, whoever takes the PUT. */
import { expectAlreadyThere, expectBytes, expectEqual, expectStatus } from '../expect.ts';
import { makeNode } from '../node-bytes.ts';
import type { CheckContext } from '../suite.ts';

/** Whatever its body, before the lease that publishes and after it. */
export async function replayedPuts({ client, target }: CheckContext): Promise<void> {
  const node = makeNode();
  const upload = await client.instruction(node.hash);
  expectStatus(await client.put(upload, node.bytes), 200);
  const refuse = async (when: string) => {
    for (const bytes of [node.bytes, makeNode().bytes, new Uint8Array()]) {
      expectAlreadyThere(target.uploadKind, await client.put(upload, bytes), when);
    }
  };
  await refuse('before the lease');
  expectEqual((await client.leased(node.hash)).state, 'ready', 'state');
  await refuse('after publication');
  const answer = await client.readContent(node.hash);
  expectBytes(answer.bytes, node.content, 'content after replayed PUTs', answer);
}
