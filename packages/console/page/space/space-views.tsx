/** The views of a Space, loaded together with the SDK when the first of them is opened. */
import { CompareView } from './compare.tsx';
import { NodeView } from './node.tsx';
import { PushView } from './push.tsx';
import { SnapshotsView } from './snapshots.tsx';
import { inSpace } from './space-gate.tsx';
import { TreeView } from './tree.tsx';
import { UsageView } from './usage.tsx';

export const Snapshots = inSpace('Snapshots', SnapshotsView);
export const Tree = inSpace('Tree', TreeView);
export const Node = inSpace('Node', NodeView);
export const Push = inSpace('Push a folder', PushView);
export const Compare = inSpace('Compare', CompareView);
export const Usage = inSpace('Usage', UsageView);
