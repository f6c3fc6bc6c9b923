/** Plans a push by reading alone: nothing on the server changes, no lease, no upload is begun. */
import type { Hash } from '@holdfast/protocol';
import { checkMethod, checkOptions } from '../../arguments.ts';
import type { Client } from '../../client.ts';
import type { Clock } from '../../deadline.ts';
import { findReady } from '../../find-ready.ts';
import type { CallOptions } from '../../operations.ts';
import { AdaptiveLimit } from '../jobs/adaptive-limit.ts';
import { PARALLEL_MAX_DEFAULT, PARALLEL_START, PatientRequests } from '../jobs/patient-requests.ts';
import { type ProgressReporter, SILENT_PROGRESS } from '../jobs/progress.ts';
import type { NodeSupply, PushNode } from './node-supply.ts';
import { NodeWalk, type VisitResult } from './node-walk.ts';

export interface PlanPushOptions extends CallOptions {
  readonly parallelMax?: number | undefined;
  readonly patienceMs?: number | undefined;
  readonly progress?: ProgressReporter | undefined;
  readonly clock?: Clock | undefined;
}

export interface PushPlan {
  readonly root: Hash;
  /** of the whole tree */
  readonly entryCount: number;
  readonly bytes: number;
  /** what the Space lacks */
  readonly missingNodes: number;
  /** bytes of files and link targets in them */
  readonly missingBytes: number;
  /** Nodes of the Space that the server knows to be lost or damaged. Those of this tree count as there: a push heals them. */
  readonly rottenNodes: number;
}

/** Asks from the top down which nodes the Space lacks; those that wait for children count. What is there is believed. Throws CasError. */
export async function planPush<Node extends PushNode>(
  client: Pick<Client, 'readMetadata'>,
  supply: NodeSupply<Node>,
  options: PlanPushOptions = {},
): Promise<PushPlan> {
  const call = { name: 'planPush', requestOperation: 'readMetadata' } as const;
  checkMethod(call, 'client', client, 'readMetadata');
  checkMethod(call, 'supply', supply, 'listChildren');
  checkOptions(call, options);
  const { signal, progress = SILENT_PROGRESS } = options;
  const limit = new AdaptiveLimit({
    start: PARALLEL_START,
    max: options.parallelMax ?? PARALLEL_MAX_DEFAULT,
  });
  const requests = new PatientRequests({ ...options, limit, progress, signal });
  let missingNodes = 0;
  let missingBytes = 0;
  let rottenNodes = 0;
  const visit = async (node: Node): Promise<VisitResult<Node>> => {
    const ready = await requests.send('a read', true, () => findReady(client, node.hash, { signal }));
    if (ready !== undefined) {
      rottenNodes = Math.max(rottenNodes, ready.rottenNodes ?? 0);
      progress.count({ files: node.entryCount, bytes: node.bytes, deduplicatedBytes: node.bytes });
      return { kind: 'done' };
    }
    missingNodes += 1;
    if (!node.isLeaf) {
      const children = await supply.listChildren(node);
      const below = children.reduce((total, child) => total + child.entryCount, 0);
      progress.count({ files: node.entryCount - below });
      return { kind: 'children', children, again: false };
    }
    missingBytes += node.bytes;
    progress.count({ files: node.entryCount, bytes: node.bytes });
    return { kind: 'done' };
  };
  progress.phase('negotiate');
  const onTwin = ({ entryCount: files, bytes }: Node): void =>
    progress.count({ files, bytes, deduplicatedBytes: bytes });
  const onFailure = (): void => undefined;
  await new NodeWalk<Node>({ visit, limit: () => limit.limit, onTwin, onFailure }).run(supply.root);
  const { hash, entryCount, bytes } = supply.root;
  return { root: hash, entryCount, bytes, missingNodes, missingBytes, rottenNodes };
}
