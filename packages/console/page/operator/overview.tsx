/** How the server is, at a glance: what needs a person first, then numbers, then their course. */
import { SECOND_MS } from '@holdfast/protocol';
import { useEffect } from 'preact/hooks';
import {
  formatBytes,
  formatCount,
  formatDistance,
  formatInstant,
  formatSpan,
  formatThings,
  printable,
} from '../parts/format.ts';
import { type Loaded, REFRESH_MS, useLoaded } from '../parts/loaded.ts';
import { Failure, Loading, Notice } from '../parts/notices.tsx';
import { hrefTo } from '../route.ts';
import { load, type Rates, readOnce, watchLoad } from './load.ts';
import { formatRate, LoadPlots } from './load-plots.tsx';
import { gaugeOf, type Scrape, sumOf } from './metrics-text.ts';
import { read } from './operator-api.ts';
import type { Status } from './shapes.ts';

export function Overview() {
  useEffect(watchLoad, []);
  const status = useLoaded('status', (signal) => read<Status>('status', {}, signal), { everyMs: REFRESH_MS });
  const { scrape, rates, error } = load.value;
  if (scrape === undefined) {
    return error === undefined ? (
      <Loading what="the server's numbers" />
    ) : (
      <Failure error={error} retry={() => void readOnce()} />
    );
  }
  return (
    <>
      <Failure error={error} retry={() => void readOnce()} />
      <Messages scrape={scrape} status={status} />
      <Cards scrape={scrape} latest={rates.at(-1)} />
      <LoadPlots rates={rates} />
    </>
  );
}

interface Message {
  readonly kind: 'bad' | 'warn';
  readonly text: string;
  readonly view: string;
}

/** Faults by the numbers of this scrape; the server's own messages say the rest. */
function findMessages(scrape: Scrape): readonly Message[] {
  const deaths = gaugeOf(scrape, 'holdfast_worker_deaths_total') ?? 0;
  const lost = gaugeOf(scrape, 'holdfast_audit_lost_lines_total') ?? 0;
  const messages: Message[] = [];
  const warn = (text: string, view: string): number => messages.push({ kind: 'warn', text, view });
  if (deaths > 0)
    warn(`${formatThings(deaths, 'worker process', 'worker processes')} died; the log says why.`, 'health');
  if (lost > 0)
    warn(`${formatThings(lost, 'line')} of the audit log could not be written and are lost.`, 'audit');
  return messages;
}

function viewOf(name: string): string {
  return name === 'rotten-nodes' ? 'checks' : 'health';
}

function Messages({ scrape, status }: { readonly scrape: Scrape; readonly status: Loaded<Status> }) {
  if (status.data === undefined) {
    return status.error === undefined ? (
      <Notice>Asking how the server is …</Notice>
    ) : (
      <Failure error={status.error} />
    );
  }
  const messages = [
    ...status.data.messages.map(({ severity, name, message }): Message => {
      return { kind: severity === 'error' ? 'bad' : 'warn', text: `${name}: ${message}`, view: viewOf(name) };
    }),
    ...findMessages(scrape),
  ];
  const hasBackup = (gaugeOf(scrape, 'holdfast_backup_last_success_timestamp_seconds') ?? 0) > 0;
  return (
    <>
      {messages.length === 0 ? (
        <Notice kind="ok">
          <p>
            {hasBackup ? 'All is well: every' : 'Every'} check passes, and no node is known to be damaged.
          </p>
        </Notice>
      ) : null}
      {hasBackup ? null : (
        <Notice>
          <p>
            No backup yet: what is lost with the disk is lost. <a href={hrefTo('backups')}>Make one</a>
          </p>
        </Notice>
      )}
      {messages.map(({ kind, text, view }) => (
        <Notice key={text} kind={kind}>
          <p>
            {printable(text)} <a href={hrefTo(view)}>Look</a>
          </p>
        </Notice>
      ))}
    </>
  );
}

interface CardProps {
  readonly label: string;
  readonly value: string;
  readonly more?: string | undefined;
}

function Card({ label, value, more }: CardProps) {
  return (
    <div class="card">
      <dt class="soft">{label}</dt>
      <dd>
        <span class="value">{value}</span>
        <span class="soft">{more ?? ''}</span>
      </dd>
    </div>
  );
}

/** The time since a gauge's instant; the gauge is 0 until it has happened. */
function since(scrape: Scrape, name: string, now: number): Pick<CardProps, 'value' | 'more'> {
  const seconds = gaugeOf(scrape, name) ?? 0;
  if (seconds === 0) return { value: 'not yet', more: 'since the start' };
  const at = seconds * SECOND_MS;
  return { value: formatDistance(at, now), more: formatInstant(at) };
}

function Cards({ scrape, latest }: { readonly scrape: Scrape; readonly latest: Rates | undefined }) {
  const now = Date.now();
  const started = gaugeOf(scrape, 'process_start_time_seconds');
  const [build] = scrape.get('holdfast_build_info') ?? [];
  const free = gaugeOf(scrape, 'holdfast_data_free_bytes') ?? 0;
  const workers = gaugeOf(scrape, 'holdfast_workers') ?? 1;
  return (
    <dl class="cards">
      <Card
        label="Version"
        value={build?.labels.version ?? 'unknown'}
        more={workers === 1 ? '1 process' : `${workers} processes`}
      />
      <Card
        label="Up for"
        value={started === undefined ? 'unknown' : formatSpan(now - started * SECOND_MS)}
        more={started === undefined ? '' : `since ${formatInstant(started * SECOND_MS)}`}
      />
      <Card
        label="Requests"
        value={latest === undefined ? '…' : formatRate(latest.requests)}
        more={`${formatCount(sumOf(scrape, 'holdfast_requests_total'))} since the start`}
      />
      <Card
        label="In work"
        value={formatCount(gaugeOf(scrape, 'holdfast_requests_in_flight') ?? 0)}
        more={`${formatCount(gaugeOf(scrape, 'holdfast_uploads_in_flight') ?? 0)} uploads`}
      />
      <Card label="Memory" value={formatBytes(gaugeOf(scrape, 'process_resident_memory_bytes') ?? 0)} />
      <Card label="Free on the disk" value={free === 0 ? 'unknown' : formatBytes(free)} />
      <Card label="Damaged nodes" value={formatCount(gaugeOf(scrape, 'holdfast_rotten_nodes') ?? 0)} />
      <Card label="Last scrub" {...since(scrape, 'holdfast_scrub_last_success_timestamp_seconds', now)} />
      <Card label="Last collection" {...since(scrape, 'holdfast_gc_last_success_timestamp_seconds', now)} />
      <Card label="Last backup" {...since(scrape, 'holdfast_backup_last_success_timestamp_seconds', now)} />
    </dl>
  );
}
