import { expect, test } from 'bun:test';
import type { DIRECTORY_CONTENT_TYPE } from '../format/tree-format.ts';
import { type NodePutter, NodeSender } from './node-sender.ts';

test('folders become ready also if a child was judged later than the folder that it is in', async () => {
  const ready = new Set<string>();
  const refs: Record<string, readonly string[]> = { child: [], folder: ['child'], root: ['folder'] };
  const answerOf = (hash: string, isJudged: boolean) => {
    const isReady = isJudged && refs[hash]?.every((child) => ready.has(child));
    if (isReady) ready.add(hash);
    return { state: isReady ? 'ready' : 'validated_awaiting_children', hash, uploaded: false };
  };
  const late = Promise.withResolvers<void>();
  const client = {
    async putNode({ contentType: hash }: { contentType: string }) {
      if (hash === 'folder') await late.promise;
      return answerOf(hash, hash === 'child');
    },
    leaseNode: async (hash: string) => answerOf(hash, true),
  };
  const sender = new NodeSender(client as unknown as NodePutter, { leaseDurationMs: 60_000 });
  const emit = (hash: string, bytes: number) => {
    const node = { hash, contentType: hash as typeof DIRECTORY_CONTENT_TYPE, refs: refs[hash] ?? [] };
    return sender.emit({ ...node, content: new Uint8Array(bytes) });
  };
  // The child is all that is held; what comes after it is sent at once.
  await emit('child', 1024 * 1024);
  await emit('folder', 1);
  await emit('root', 1);
  await Bun.sleep(0);
  late.resolve();
  const { unready } = await sender.finish(60_000);
  expect(unready).toEqual([]);
});
