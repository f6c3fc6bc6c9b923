/** All Spaces, page by page: what each holds, a plan of a collection, and the collection itself. */
import type { GcResult } from '@holdfast/protocol';
import { useState } from 'preact/hooks';
import { UsageBars } from '../parts/bar.tsx';
import { HashText } from '../parts/command.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { formatBytes, formatCount, formatThings, printable, shellWord } from '../parts/format.ts';
import { useLoaded } from '../parts/loaded.ts';
import { Empty, Notice, Shown } from '../parts/notices.tsx';
import { Scroll } from '../parts/scroll.tsx';
import { goTo, hrefTo, route } from '../route.ts';
import { change, read } from './operator-api.ts';
import { OperatorCommand, useOperatorCommand } from './operator-command.tsx';
import type { GcPlan, ListedSpace, SpacePage } from './shapes.ts';

type Chosen = { readonly act: 'collect' | 'plan'; readonly space: ListedSpace };

export function Spaces() {
  const { query } = route.value;
  const [app, after] = [query.get('app') ?? undefined, query.get('after') ?? undefined];
  const loaded = useLoaded(`spaces ${app} ${after}`, (signal) =>
    read<SpacePage>('spaces', { app, after, limit: 50 }, signal),
  );
  const [chosen, setChosen] = useState<Chosen | undefined>(undefined);
  const [done, setDone] = useState<string | undefined>(undefined);
  return (
    <>
      <Filter app={app} />
      {done === undefined ? null : (
        <Notice kind="ok">
          <p>{done}</p>
        </Notice>
      )}
      <Shown loaded={loaded} what="Spaces">
        {({ spaces, next }) => (
          <>
            {spaces.length === 0 ? (
              <Empty
                title={
                  app === undefined
                    ? 'No Space holds anything yet'
                    : 'This App has no Space that holds anything'
                }
              >
                <p>A Space begins with the first node that a token for it stores.</p>
              </Empty>
            ) : (
              <SpaceTable spaces={spaces} onChoose={setChosen} />
            )}
            <div class="buttons">
              {after === undefined ? null : (
                <a class="button" href={hrefTo('spaces', { app })}>
                  First page
                </a>
              )}
              {next === null ? null : (
                <a class="button" href={hrefTo('spaces', { app, after: next })}>
                  Next page
                </a>
              )}
            </div>
          </>
        )}
      </Shown>
      <OperatorCommand line="holdfast space list" />
      {chosen?.act === 'collect' ? (
        <CollectDialog
          space={chosen.space}
          onClose={() => setChosen(undefined)}
          onDone={(words) => {
            setDone(words);
            loaded.reload();
          }}
        />
      ) : null}
      {chosen?.act === 'plan' ? (
        <PlanDialog space={chosen.space} onClose={() => setChosen(undefined)} />
      ) : null}
    </>
  );
}

function Filter({ app }: { readonly app: string | undefined }) {
  return (
    <form
      class="tools"
      onSubmit={(event) => {
        event.preventDefault();
        const given = new FormData(event.currentTarget).get('app');
        goTo(hrefTo('spaces', { app: typeof given === 'string' ? given.trim() : undefined }));
      }}
    >
      <label>
        Of the App
        <input key={app} name="app" value={app ?? ''} placeholder="all" spellcheck={false} />
      </label>
      <button type="submit">Show</button>
    </form>
  );
}

function SpaceTable({
  spaces,
  onChoose,
}: {
  readonly spaces: readonly ListedSpace[];
  readonly onChoose: (chosen: Chosen) => void;
}) {
  return (
    <Scroll label="Table of Spaces" kind="panel">
      <table class="stacks">
        <thead>
          <tr>
            <th scope="col">App</th>
            <th scope="col">Space</th>
            <th scope="col">Stored</th>
            <th scope="col">Nodes</th>
            <th scope="col">Commits</th>
            <th scope="col" class="number">
              Leased
            </th>
            <th scope="col">
              <span class="unseen">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {spaces.map((each) => {
            const { app, space } = each;
            const name = `${printable(app)} / ${printable(space)}`;
            return (
              <tr key={`${app}/${space}`}>
                <td>
                  <bdi>{printable(app)}</bdi>
                </td>
                <td>
                  <bdi>{printable(space)}</bdi>
                </td>
                <UsageCells name={name} space={each} />
                <td class="actions">
                  <button
                    type="button"
                    aria-label={`Plan a collection of ${name}`}
                    onClick={() => onChoose({ act: 'plan', space: each })}
                  >
                    Plan
                  </button>
                  <button
                    type="button"
                    aria-label={`Collect ${name}`}
                    onClick={() => onChoose({ act: 'collect', space: each })}
                  >
                    Collect …
                  </button>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Scroll>
  );
}

function UsageCells({ name, space }: { readonly name: string; readonly space: ListedSpace }) {
  const { usage, damage } = space;
  if (usage === null) {
    return (
      <td colSpan={4} data-label="Stored">
        It cannot be read: {damage}
      </td>
    );
  }
  return (
    <>
      <UsageBars
        name={name}
        held={{ ...space, usage }}
        place={(label, bar) => <td data-label={label}>{bar}</td>}
      />
      <td class="number" data-label="Leased">
        {formatCount(usage.leasedNodeCount)}
      </td>
    </>
  );
}

function CollectDialog({
  space: { app, space },
  onClose,
  onDone,
}: {
  readonly space: ListedSpace;
  readonly onClose: () => void;
  readonly onDone: (words: string) => void;
}) {
  return (
    <Dialog
      title={`Collect ${printable(app)} / ${printable(space)}?`}
      confirm="Collect"
      command={useOperatorCommand(`holdfast space gc ${shellWord(app)} ${shellWord(space)}`)}
      onClose={onClose}
      onConfirm={async () => {
        const { deleted, reclaimedContentBytes } = await change<GcResult>('spaces/gc', { app, space });
        onDone(`${formatThings(deleted, 'node')} deleted, ${formatBytes(reclaimedContentBytes)} freed.`);
      }}
    >
      <p>
        Nodes that no lease, no root ref and no parent keeps are deleted. The plan lists what will be deleted.
      </p>
    </Dialog>
  );
}

const SHOWN_MAX = 100;

/** The plan of a collection, made by the same code that deletes. */
function PlanDialog({
  space: { app, space },
  onClose,
}: {
  readonly space: ListedSpace;
  readonly onClose: () => void;
}) {
  const loaded = useLoaded(`plan ${app} ${space}`, (signal) =>
    read<GcPlan>('gc-plan', { app, space }, signal),
  );
  return (
    <Dialog
      title={`What a collection of ${printable(app)} / ${printable(space)} would take`}
      confirm="Close"
      onClose={onClose}
      onConfirm={async () => undefined}
    >
      <Shown loaded={loaded} what="the plan">
        {({ deleted, reclaimedContentBytes, nodes, damage }) => (
          <>
            {damage === null ? null : (
              <Notice kind="bad">Rows of this Space cannot be read, and are left out: {damage}</Notice>
            )}
            <p>
              {deleted === 0
                ? 'Nothing: everything is kept.'
                : `${formatThings(deleted, 'node')}, ${formatBytes(reclaimedContentBytes)}.`}
            </p>
            <ul class="rows plan">
              {nodes.slice(0, SHOWN_MAX).map(({ hash, contentBytes }) => (
                <li key={hash}>
                  <HashText hash={hash} digits={24} />
                  <span class="number">{formatBytes(contentBytes)}</span>
                </li>
              ))}
            </ul>
            {nodes.length > SHOWN_MAX ? (
              <p class="soft">And {formatThings(nodes.length - SHOWN_MAX, 'more node')}.</p>
            ) : null}
          </>
        )}
      </Shown>
      <OperatorCommand line={`holdfast gc --plan --app ${shellWord(app)} --space ${shellWord(space)}`} />
    </Dialog>
  );
}
