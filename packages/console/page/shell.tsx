/** The frame around every view: who is signed in to what, the way to the views, and the view itself. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { keepOperatorToken, operatorAccess } from './operator/operator-api.ts';
import { printable } from './parts/format.ts';
import { Mark } from './parts/icons.tsx';
import { chooseTheme, THEMES, type Theme, theme } from './parts/theme.ts';
import { hrefTo, route } from './route.ts';
import { enterSpace, spaceAccess } from './space-session.ts';
import { findView, VIEWS, type View } from './views.tsx';

export function Shell() {
  const { segments } = route.value;
  const view = findView(segments);
  const heading = useRef<HTMLElement>(null);
  const [isOpen, setOpen] = useState(false);
  const at = segments.join('/');
  const before = useRef(at);
  useEffect(() => {
    document.title = `${view.title} · Holdfast console`;
  }, [view.title]);
  useEffect(() => {
    if (before.current === at) return;
    before.current = at;
    setOpen(false);
    scrollTo(0, 0);
    heading.current?.focus({ preventScroll: true });
  }, [at]);
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => heading.current?.focus()}>
        Skip to the view
      </button>
      <header class="top">
        <a class="brand" href={hrefTo('')}>
          <Mark /> Holdfast
        </a>
        <button
          type="button"
          class="menu"
          aria-expanded={isOpen}
          aria-controls="navigation"
          onClick={() => setOpen(!isOpen)}
        >
          {isOpen ? 'Close' : 'Menu'}
        </button>
      </header>
      <Navigation active={view} isOpen={isOpen} />
      <main id="main" ref={heading} tabIndex={-1} aria-label={view.title}>
        <view.Content />
      </main>
    </div>
  );
}

function Navigation({ active, isOpen }: { readonly active: View; readonly isOpen: boolean }) {
  const access = spaceAccess.value;
  return (
    <nav id="navigation" aria-label="Views" class={isOpen ? 'open' : ''}>
      <h2>Server</h2>
      <Links area="operator" active={active} />
      <h2>Space</h2>
      {access === undefined ? null : (
        <p class="whoami" title={`${printable(access.app)} / ${printable(access.space)}`}>
          <bdi>{printable(access.app)}</bdi> / <bdi>{printable(access.space)}</bdi>
        </p>
      )}
      <Links area="space" active={active} />
      <div class="nav-end">
        <SignOut />
        <ThemeChoice />
      </div>
    </nav>
  );
}

function Links({ area, active }: { readonly area: View['area']; readonly active: View }) {
  return (
    <ul>
      {VIEWS.filter((view) => view.area === area && view.isListed).map((view) => (
        <li key={view.path}>
          <a href={hrefTo(view.path)} aria-current={view === active ? 'page' : undefined}>
            {view.title}
          </a>
        </li>
      ))}
    </ul>
  );
}

function SignOut() {
  const isInSpace = spaceAccess.value !== undefined;
  return (
    <>
      {isInSpace ? (
        <button type="button" onClick={() => enterSpace(undefined)}>
          Leave the Space
        </button>
      ) : null}
      {operatorAccess.value === 'token' ? (
        <button type="button" onClick={() => keepOperatorToken(undefined)}>
          Sign out as operator
        </button>
      ) : null}
    </>
  );
}

function ThemeChoice() {
  return (
    <label class="theme">
      Theme
      <select value={theme.value} onChange={({ currentTarget }) => chooseTheme(currentTarget.value as Theme)}>
        {THEMES.map((each) => (
          <option key={each} value={each}>
            {each.charAt(0).toUpperCase() + each.slice(1)}
          </option>
        ))}
      </select>
    </label>
  );
}
