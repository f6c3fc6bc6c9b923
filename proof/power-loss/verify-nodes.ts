/** Nodes that must be there, byte for byte, and a check that finds nothing. */
import type { Space } from '../../packages/server/core/model.ts';
import { readContent } from '../../packages/server/core/read/read-content.ts';
import { readMetadata } from '../../packages/server/core/read/read-metadata.ts';
import { checkDeployment } from '../../packages/server/inspect/check-deployment.ts';
import type { CanonicalNode } from '../../test/support/canonical-node.ts';
import type { KnownDeployment } from '../row-rot/deployment.ts';
import { CALLER, openFolder, SPACE, type World } from '../row-rot/world.ts';

/** The data folder holds all of it. @throws what a server that starts on the folder would say */
export async function verifyDeployment(dataDir: string, known: KnownDeployment): Promise<string[]> {
  const wrong: string[] = [];
  const world = await openFolder(dataDir)(known.now, 3);
  try {
    await verifyNodes(world, known.nodes, wrong, 'there');
    await verifyCheck(world, wrong);
  } finally {
    await world.close();
  }
  return wrong;
}

export async function verifyNodes(
  world: World,
  nodes: readonly (CanonicalNode & { readonly space?: Space })[],
  wrong: string[],
  when: string,
): Promise<void> {
  for (const { hash, content, refs, space = SPACE } of nodes) {
    try {
      const { metadata } = await readMetadata(world.core, space, hash);
      const { body } = await readContent(world.core, space, hash, undefined, CALLER);
      const bytes = body instanceof Uint8Array ? body : new Uint8Array(await body.arrayBuffer());
      if (Buffer.compare(bytes, content) !== 0 || metadata.refs.join() !== refs.join())
        wrong.push(`${when}: ${hash} has other bytes`);
    } catch (error) {
      wrong.push(`${when}: ${hash}: ${error}`);
    }
  }
}

export async function verifyCheck({ core }: World, wrong: string[]): Promise<void> {
  const { findings } = await checkDeployment(core, {
    ...{ isRepaired: false, rehashPercent: 100, signal: new AbortController().signal },
    report: () => undefined,
  });
  wrong.push(...findings.map(({ hash, message }) => `check: ${hash} ${message}`));
}
