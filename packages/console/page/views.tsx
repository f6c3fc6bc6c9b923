/** Every view: where it is, what it is called, and what shows it. */
import type { ComponentType, FunctionComponent } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Apps } from './operator/apps.tsx';
import { Audit } from './operator/audit.tsx';
import { Backups } from './operator/backups.tsx';
import { Checks } from './operator/checks.tsx';
import { HealthView } from './operator/health.tsx';
import { OperatorGate } from './operator/operator-gate.tsx';
import { Overview } from './operator/overview.tsx';
import { Spaces } from './operator/spaces.tsx';
import { Failure, Loading } from './parts/notices.tsx';
import type * as SpaceViews from './space/space-views.tsx';

export interface View {
  readonly path: string;
  readonly title: string;
  readonly area: 'operator' | 'space';
  /** in the navigation */
  readonly isListed: boolean;
  readonly Content: FunctionComponent;
}

function operatorView(path: string, title: string, Inner: ComponentType): View {
  const Content = () => (
    <OperatorGate title={title}>
      <Inner />
    </OperatorGate>
  );
  return { path, title, area: 'operator', isListed: true, Content };
}

/** The SDK, and all that shows Spaces, comes when the first of these is opened. */
let loading: Promise<typeof SpaceViews> | undefined;

function spaceView(path: string, title: string, name: keyof typeof SpaceViews, isListed = true): View {
  const Content = () => {
    const [loaded, setLoaded] = useState<{ readonly Inner: ComponentType } | undefined>(undefined);
    const [error, setError] = useState<unknown>(undefined);
    useEffect(() => {
      loading ??= import('./space/space-views.tsx');
      loading.then(
        (views) => setLoaded({ Inner: views[name] }),
        (caught: unknown) => {
          loading = undefined;
          setError(caught);
        },
      );
    }, []);
    if (loaded !== undefined) return <loaded.Inner />;
    return error === undefined ? <Loading what={title.toLowerCase()} /> : <Failure error={error} />;
  };
  return { path, title, area: 'space', isListed, Content };
}

export const VIEWS: readonly View[] = [
  operatorView('', 'Overview', Overview),
  operatorView('apps', 'Apps', Apps),
  operatorView('spaces', 'Spaces', Spaces),
  operatorView('checks', 'Damage and checks', Checks),
  operatorView('backups', 'Backups', Backups),
  operatorView('health', 'Health', HealthView),
  operatorView('audit', 'Audit log', Audit),
  spaceView('space', 'Snapshots', 'Snapshots'),
  spaceView('space/compare', 'Compare', 'Compare'),
  spaceView('space/push', 'Push a folder', 'Push'),
  spaceView('space/usage', 'Usage', 'Usage'),
  spaceView('space/tree', 'Tree', 'Tree', false),
  spaceView('space/node', 'Node', 'Node', false),
];

const NOWHERE: View = {
  path: '404',
  title: 'Not here',
  area: 'operator',
  isListed: false,
  Content: () => (
    <>
      <h1>Not here</h1>
      <p>The console has no view at this address. The views are in the navigation.</p>
    </>
  ),
};

/** By the first one or two segments; what follows belongs to the view. */
export function findView(segments: readonly string[]): View {
  const [first = '', second] = segments;
  const path = first === 'space' && second !== undefined ? `${first}/${second}` : first;
  return VIEWS.find((view) => view.path === path) ?? NOWHERE;
}
