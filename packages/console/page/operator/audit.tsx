/** The newest lines of the audit log. */
import { useState } from 'preact/hooks';
import { CommandLine } from '../parts/command.tsx';
import { printable } from '../parts/format.ts';
import { REFRESH_MS, useLoaded } from '../parts/loaded.ts';
import { Empty, Shown } from '../parts/notices.tsx';
import { Scroll } from '../parts/scroll.tsx';
import { read } from './operator-api.ts';
import type { AuditLine } from './shapes.ts';

const LINES = 500;
const COLUMNS = ['time', 'status', 'operation', 'app', 'space', 'sub', 'peer', 'error'] as const;

export function Audit() {
  const [filter, setFilter] = useState('');
  const [isRefusedOnly, setRefusedOnly] = useState(false);
  const loaded = useLoaded(
    'audit',
    (signal) => read<{ enabled: boolean; lines: readonly AuditLine[] }>('audit', { limit: LINES }, signal),
    { everyMs: REFRESH_MS },
  );
  const isShown = (line: AuditLine): boolean =>
    (!isRefusedOnly || Number(line.status) >= 400) &&
    JSON.stringify(line).toLowerCase().includes(filter.toLowerCase());
  return (
    <>
      <div class="tools">
        <label>
          Only lines with
          <input
            type="search"
            value={filter}
            spellcheck={false}
            placeholder="an App, a subject, an operation …"
            onInput={({ currentTarget }) => setFilter(currentTarget.value)}
          />
        </label>
        <label>
          <input
            type="checkbox"
            checked={isRefusedOnly}
            onChange={({ currentTarget }) => setRefusedOnly(currentTarget.checked)}
          />{' '}
          Only refusals
        </label>
      </div>
      <Shown loaded={loaded} what="the audit log">
        {({ enabled, lines }) =>
          enabled ? (
            <Lines lines={lines.filter(isShown)} total={lines.length} />
          ) : (
            <Empty title="The server keeps no audit log">
              <p>
                With one, it writes a line for every change and every refusal: who, what, and how it ended.
              </p>
            </Empty>
          )
        }
      </Shown>
      <p class="soft">The last {LINES} lines, in memory. All of them, with all fields, are in the file of:</p>
      <CommandLine line="holdfast serve --audit-log FILE" />
    </>
  );
}

function Lines({ lines, total }: { readonly lines: readonly AuditLine[]; readonly total: number }) {
  if (lines.length === 0) {
    return (
      <Empty title={total === 0 ? 'Nothing has been changed or refused yet' : 'No line is like that'}>
        <p>{total === 0 ? 'Reads are told only with --audit-reads.' : 'Change what is looked for.'}</p>
      </Empty>
    );
  }
  return (
    <Scroll label="Lines of the audit log, the latest first" kind="panel">
      <table class="log">
        <thead>
          <tr>
            {COLUMNS.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {lines.map((line, index) => (
            <tr key={index} title={printable(JSON.stringify(line))}>
              {COLUMNS.map((name) => (
                <td
                  key={name}
                  class={name === 'status' && Number(line.status) >= 400 ? 'bad-text' : undefined}
                >
                  <bdi>{line[name] === undefined ? '' : printable(String(line[name]))}</bdi>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
