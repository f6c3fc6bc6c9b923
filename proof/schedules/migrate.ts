/** A migration between two steps of an operation, as if the server had been killed there: the target is as good as the source. */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ApiError, type Hash } from '@holdfast/protocol';
import type { Core } from '../../packages/server/core/core.ts';
import type { Space } from '../../packages/server/core/model.ts';
import { readMetadata } from '../../packages/server/core/read/read-metadata.ts';
import { listRootRefs } from '../../packages/server/core/refs/list-root-refs.ts';
import type { CopiedDeployment } from '../../packages/server/deployment/deployment.ts';
import { openDeployment } from '../../packages/server/deployment/open.ts';
import { copyAll } from '../row-rot/journeys.ts';
import { openSource } from '../row-rot/postgres.ts';
import { openFolder } from '../row-rot/world.ts';
import { DOMAINS, type Play } from './play.ts';
import { settle } from './settle.ts';
import { listObjects } from './world.ts';

/** To a data folder. Rows in a folder whose bytes clients write to a store themselves have nothing of their own here. */
export async function migrate(play: Play): Promise<void> {
  const { dataDir, direct, url } = play.world;
  if (dataDir !== undefined && direct !== undefined) return;
  const around = mkdtempSync(join(dataDir === undefined ? tmpdir() : join(dataDir, '..'), 'migration-'));
  const mask = process.umask();
  try {
    await using opened = new AsyncDisposableStack();
    const source = opened.adopt(
      url === undefined || direct === undefined
        ? await openFrom(dataDir as string, join(around, 'from'))
        : await openSource({ url, content: direct }),
      (each) => each.close(),
    );
    const to = join(around, 'to');
    const target = await openFolderCopy(to);
    try {
      await copyAll(source, target);
    } finally {
      await target.close();
    }
    await compare(play, to);
  } catch (error) {
    play.wrong.push(`a migration fails: ${error instanceof Error ? error.stack : String(error)}`);
  } finally {
    process.umask(mask);
    rmSync(around, { recursive: true });
  }
}

function openFolderCopy(dataDir: string): Promise<CopiedDeployment> {
  const place = { kind: 'folder', dataDir } as const;
  return openDeployment({ rows: place, bytes: place }, { kind: 'copy' });
}

/** The folder itself is being served. */
function openFrom(dataDir: string, copy: string): Promise<CopiedDeployment> {
  cpSync(dataDir, copy, { recursive: true });
  return openFolderCopy(copy);
}

async function statusOf(core: Core, space: Space, hash: Hash): Promise<number> {
  try {
    await readMetadata(core, space, hash);
    return 200;
  } catch (error) {
    if (error instanceof ApiError) return error.status;
    throw error;
  }
}

async function compare(play: Play, to: string): Promise<void> {
  const { core, clock } = play.world;
  const { space, wrong } = play;
  const world = await openFolder(to)(clock.now, 8);
  try {
    for (const node of play.nodes) {
      const [was, is] = await Promise.all([core, world.core].map((each) => statusOf(each, space, node.hash)));
      if (was !== is) wrong.push(`after a migration ${node.hash} answers ${is}, and answered ${was}`);
      if (play.isHeld(node) && !play.lost.has(node.hash))
        await play.read(world.core, node, 'after a migration');
    }
    for (const domain of DOMAINS) {
      const [was, is] = await Promise.all(
        [core, world.core].map((each) => listRootRefs(each, space, domain, { limit: 100 })),
      );
      if (!Bun.deepEquals(was, is)) wrong.push(`after a migration the root refs of ${domain} are others`);
    }
    await play.repeatCommits(world.core);
    wrong.push(...(await settle({ ...world, objects: () => listObjects(to) }, space)));
  } finally {
    await world.close();
  }
}
