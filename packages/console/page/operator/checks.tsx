/** Damage: what the server knows of, and a check that looks for more. */
import { useState } from 'preact/hooks';
import { HashText } from '../parts/command.tsx';
import { formatCount, formatThings, printable } from '../parts/format.ts';
import { useAction, useLoaded } from '../parts/loaded.ts';
import { Empty, Failure, Notice, Shown } from '../parts/notices.tsx';
import { change, read } from './operator-api.ts';
import { OperatorCommand } from './operator-command.tsx';
import type { CheckReport, RottenNode } from './shapes.ts';

export function Checks() {
  const rotten = useLoaded(
    'rotten',
    (signal) => read<{ total: number; nodes: readonly RottenNode[] }>('rotten', {}, signal),
    {
      everyMs: 30_000,
    },
  );
  return (
    <>
      <section aria-label="Damaged nodes">
        <h2>Damaged nodes</h2>
        <Shown loaded={rotten} what="damaged nodes">
          {({ total, nodes }) =>
            nodes.length === 0 ? (
              <Empty title="The server knows of no damaged node">
                <p>The scrub reads all content again and again, and names here what is lost or damaged.</p>
              </Empty>
            ) : (
              <Rotten total={total} nodes={nodes} />
            )
          }
        </Shown>
      </section>
      <Check />
    </>
  );
}

function Rotten({ total, nodes }: { readonly total: number; readonly nodes: readonly RottenNode[] }) {
  return (
    <>
      <Notice kind="bad">
        <p>
          {formatThings(total, 'node')} cannot be read
          {nodes.length < total ? `, of which ${formatCount(nodes.length)} are named here` : ''}. Push the
          trees they belong to once more with <code>holdfast push --check</code>, or restore them from a
          backup.
        </p>
      </Notice>
      <ul class="rows panel">
        {nodes.map(({ app, space, hash }) => (
          <li key={`${app}/${space}/${hash}`}>
            <HashText hash={hash} digits={24} />
            <span>
              <bdi>{printable(app)}</bdi> / <bdi>{printable(space)}</bdi>
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Check() {
  const action = useAction();
  const [report, setReport] = useState<CheckReport | undefined>(undefined);
  const [progress, setProgress] = useState('');
  const [rehash, setRehash] = useState(false);
  const check = async (): Promise<void> => {
    setReport(undefined);
    setProgress('');
    setReport(await change<CheckReport>('check', rehash ? { rehash: 'all' } : {}, setProgress));
  };
  return (
    <section class="panel" aria-label="Check the deployment">
      <h2>Check the deployment</h2>
      <p class="soft">
        Compares rows, bytes, edges, counts and usage while the server serves. Nothing is changed: a repair is
        asked for on the command line.
      </p>
      <label>
        <input
          type="checkbox"
          checked={rehash}
          onChange={({ currentTarget }) => setRehash(currentTarget.checked)}
        />{' '}
        Also read and hash all content, which takes long
      </label>
      <div class="buttons">
        <button
          type="button"
          class="primary"
          disabled={action.isRunning}
          onClick={() => void action.run(check)}
        >
          {action.isRunning ? 'Checking …' : 'Check now'}
        </button>
      </div>
      {action.isRunning ? (
        <div class="progress">
          <progress aria-label="Check" />
          <p role="status">{progress === '' ? 'It has begun.' : printable(progress)}</p>
        </div>
      ) : null}
      <Failure error={action.error} />
      {report === undefined ? null : <Report report={report} />}
      <OperatorCommand line={`holdfast check${rehash ? ' --rehash all' : ''}`} />
    </section>
  );
}

function Report({ report: { ok, checked, findings } }: { readonly report: CheckReport }) {
  const counted = `${formatThings(checked, 'node')} looked at.`;
  if (findings.length === 0) {
    return (
      <Notice kind={ok ? 'ok' : 'warn'}>
        <p>Everything is as it should be. {counted}</p>
      </Notice>
    );
  }
  return (
    <>
      <Notice kind="bad">
        <p>
          {formatThings(findings.length, 'finding')}. {counted}
        </p>
      </Notice>
      <ul class="rows">
        {findings.map(({ kind, app, space, hash, message, repaired }) => (
          <li key={`${kind} ${app} ${space} ${hash}`}>
            <strong>{printable(kind)}</strong>
            {hash === null ? null : <HashText hash={hash} />}
            <span>
              <bdi>{printable(`${app} / ${space}`)}</bdi>
            </span>
            <span>{printable(message)}</span>
            {repaired ? <span class="badge ok">repaired</span> : null}
          </li>
        ))}
      </ul>
    </>
  );
}
