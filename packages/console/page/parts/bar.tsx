/** How much of a quota is used. */
import type { SpaceUsage } from '@holdfast/protocol';
import type { ComponentChildren } from 'preact';
import { formatBytes, formatCount } from './format.ts';

/** Without a quota it is the number alone. */
function QuotaBar({
  label,
  used,
  max,
  unit,
}: {
  readonly label: string;
  readonly used: number;
  readonly max: number | null | undefined;
  readonly unit: 'bytes' | 'count';
}) {
  const format = unit === 'bytes' ? formatBytes : formatCount;
  if (max === null || max === undefined) return <span class="quota">{format(used)}</span>;
  const part = max === 0 ? 1 : used / max;
  const kind = part >= 1 ? 'bad' : part >= 0.85 ? 'warn' : 'ok';
  return (
    <span class="quota">
      <span>
        {format(used)} of {format(max)} <span class="soft">({Math.floor(part * 100)} %)</span>
      </span>
      <meter class={kind} aria-label={label} min={0} max={1} value={Math.min(1, part)} />
    </span>
  );
}

export interface Held {
  readonly usage: SpaceUsage;
  /** null: without a limit */
  readonly quotas?: { readonly [max in 'maxBytes' | 'maxNodes' | 'maxCommits']: number | null };
  /** bytes that were received and are not judged yet; null: they cannot be read */
  readonly pendingBytes: number | null;
  readonly commitRows: number | null;
}

/** The bytes, nodes and commits of an App or a Space, each in an element that `place` makes under its label. */
export function UsageBars({
  name,
  held: { usage, quotas, pendingBytes, commitRows },
  place,
}: {
  readonly name: string;
  readonly held: Held;
  readonly place: (label: string, bar: ComponentChildren) => ComponentChildren;
}) {
  const stored = usage.readyStoredBytes + usage.reservedBytes + (pendingBytes ?? 0);
  return (
    <>
      {place(
        'Stored',
        <>
          <QuotaBar label={`Bytes of ${name}`} used={stored} max={quotas?.maxBytes} unit="bytes" />
          {pendingBytes ? <span class="soft"> {formatBytes(pendingBytes)} of it not judged yet</span> : null}
        </>,
      )}
      {place(
        'Nodes',
        <QuotaBar label={`Nodes of ${name}`} used={usage.nodeCount} max={quotas?.maxNodes} unit="count" />,
      )}
      {place(
        'Commits',
        <QuotaBar
          label={`Commits of ${name}`}
          used={commitRows ?? 0}
          max={quotas?.maxCommits}
          unit="count"
        />,
      )}
    </>
  );
}
