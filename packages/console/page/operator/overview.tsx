import { useLoaded } from '../parts/loaded.ts';
import { Shown } from '../parts/notices.tsx';
import { read } from './operator-api.ts';
export function Overview() {
  const loaded = useLoaded('status', (signal) => read<unknown>('status', {}, signal), { everyMs: 10_000 });
  return (
    <Shown loaded={loaded} what="the status">
      {(status) => <pre>{JSON.stringify(status, undefined, 1)}</pre>}
    </Shown>
  );
}
