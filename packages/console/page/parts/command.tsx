/** The same action for the command line, ready to be copied. */
import { useState } from 'preact/hooks';

/** Without a secure context there is no clipboard: then the text is selected, for Ctrl-C. */
async function copy(text: string, shown: HTMLElement | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    if (shown !== null) getSelection()?.selectAllChildren(shown);
    return false;
  }
}

function CopyButton({ text, label }: { readonly text: string; readonly label: string }) {
  const [said, setSaid] = useState('');
  return (
    <button
      type="button"
      class="copy"
      aria-label={label}
      onClick={async ({ currentTarget }) => {
        const shown = currentTarget.parentElement?.querySelector('code') ?? null;
        setSaid((await copy(text, shown)) ? 'Copied' : 'Press Ctrl-C');
        setTimeout(() => setSaid(''), 2000);
      }}
    >
      <span aria-live="polite">{said === '' ? 'Copy' : said}</span>
    </button>
  );
}

export function CommandLine({ line }: { readonly line: string }) {
  return (
    <div class="command">
      <code>{line}</code>
      <CopyButton text={line} label={`Copy the command ${line}`} />
    </div>
  );
}

export function HashText({
  hash,
  href,
  digits = 12,
}: {
  readonly hash: string;
  readonly href?: string;
  readonly digits?: number;
}) {
  const short = hash.length > digits ? `${hash.slice(0, digits)}…` : hash;
  return (
    <span class="hash" title={hash}>
      {href === undefined ? (
        <code>{short}</code>
      ) : (
        <a href={href}>
          <code>{short}</code>
        </a>
      )}
      <CopyButton text={hash} label={`Copy the hash ${hash.slice(0, digits)}`} />
    </span>
  );
}
