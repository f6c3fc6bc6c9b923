/** The probes, as a load balancer or Kubernetes sees them, in words. */
import { CommandLine } from '../parts/command.tsx';
import { printable } from '../parts/format.ts';
import { REFRESH_MS, useLoaded } from '../parts/loaded.ts';
import { Empty, Notice, Shown } from '../parts/notices.tsx';
import { readText } from './operator-api.ts';

const WORDS = { ok: 'good', warn: 'warning', bad: 'failed' } as const;

export function HealthView() {
  const loaded = useLoaded('health', (signal) => readText('/readyz?verbose', signal), {
    everyMs: REFRESH_MS,
  });
  return (
    <>
      <Shown loaded={loaded} what="the checks">
        {({ status, text }) => {
          const checks = parseChecks(text);
          return (
            <>
              <Notice kind={status === 200 ? 'ok' : 'bad'}>
                <p>
                  {status === 200
                    ? 'Ready: this process takes requests.'
                    : 'Not ready: this process should get no requests. The failures are below.'}
                </p>
              </Notice>
              {checks.length === 0 ? (
                <Empty title="The server names no checks" />
              ) : (
                <ul class="rows panel">
                  {checks.map(({ kind, name, message }) => (
                    <li key={name}>
                      <strong>{printable(name)}</strong>
                      <span class={`badge ${kind}`}>{WORDS[kind]}</span>
                      <span>{printable(message)}</span>
                    </li>
                  ))}
                </ul>
              )}
            </>
          );
        }}
      </Shown>
      <CommandLine line={`curl '${location.origin}/readyz?verbose'`} />
    </>
  );
}

const LINE = /^\[([+!-])\](\S+) (.*)$/;
const KINDS = { '+': 'ok', '!': 'warn', '-': 'bad' } as const;

interface CheckLine {
  readonly kind: (typeof KINDS)[keyof typeof KINDS];
  readonly name: string;
  /** empty where all is well */
  readonly message: string;
}

function parseChecks(text: string): readonly CheckLine[] {
  return text.split('\n').flatMap((line) => {
    const [, mark = '', name = '', rest = ''] = LINE.exec(line) ?? [];
    const kind = KINDS[mark as keyof typeof KINDS];
    if (kind === undefined) return [];
    return [{ kind, name, message: rest.replace(/^(?:ok|warning|failed):? ?/, '') }];
  });
}
