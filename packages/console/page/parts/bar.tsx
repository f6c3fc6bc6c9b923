/** How much of a quota is used. */
import { formatBytes, formatCount } from './format.ts';

const WARN_PART = 0.85;

/** Without a quota it is the number alone. */
export function QuotaBar({
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
  const kind = part >= 1 ? 'bad' : part >= WARN_PART ? 'warn' : 'ok';
  return (
    <span class="quota">
      <span>
        {format(used)} of {format(max)} <span class="soft">({Math.floor(part * 100)} %)</span>
      </span>
      <meter class={kind} aria-label={label} min={0} max={1} value={Math.min(1, part)} />
    </span>
  );
}

/** How much of what is stored was received and is not judged yet; nothing where all is. */
export function Pending({ bytes }: { readonly bytes: number | null }) {
  return bytes ? <span class="soft"> {formatBytes(bytes)} of it not judged yet</span> : null;
}
