/** Commands on a Space, with the flags that name it: so they work in any folder and without a profile. */
import { CommandLine } from '../parts/command.tsx';
import { shellWord } from '../parts/format.ts';
import type { Connection } from './connection.ts';

export function spaceCommand(
  { url, app, space }: Pick<Connection, 'url' | 'app' | 'space'>,
  line: string,
): string {
  return `${line} --url ${shellWord(url)} --app ${shellWord(app)} --space ${shellWord(space)}`;
}

export function SpaceCommand({ space, line }: { readonly space: Connection; readonly line: string }) {
  return <CommandLine line={spaceCommand(space, line)} />;
}

export function TokenHint() {
  return (
    <p class="soft">
      The token of this Space comes from <code>HOLDFAST_TOKEN</code> or <code>--token-file</code>.
    </p>
  );
}
