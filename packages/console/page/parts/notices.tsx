/** Notices that a view shows instead of its data, or beside it. */
import type { ComponentChildren } from 'preact';
import { describeError } from './describe-error.ts';
import type { Loaded } from './loaded.ts';

export function Failure({
  error,
  retry,
}: {
  readonly error: unknown;
  readonly retry?: (() => void) | undefined;
}) {
  if (error === undefined) return null;
  return (
    <div class="notice bad" role="alert">
      <p>{describeError(error)}</p>
      {retry === undefined ? null : (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Notice({
  kind = 'plain',
  children,
}: {
  readonly kind?: 'plain' | 'ok' | 'warn' | 'bad';
  readonly children: ComponentChildren;
}) {
  return (
    <div class={`notice ${kind}`} role={kind === 'bad' ? 'alert' : 'status'}>
      {children}
    </div>
  );
}

export function Empty({
  title,
  children,
}: {
  readonly title: string;
  readonly children?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

export function Loading({ what }: { readonly what: string }) {
  return (
    <p class="loading" role="status">
      Loading {what} …
    </p>
  );
}

/** The failure, the wait, or what was loaded: each view's outer shell. */
export function Shown<T>({
  loaded,
  what,
  children,
}: {
  readonly loaded: Loaded<T>;
  readonly what: string;
  readonly children: (data: T) => ComponentChildren;
}) {
  const { data, error, reload } = loaded;
  return (
    <>
      <Failure error={error} retry={reload} />
      {data === undefined ? error === undefined ? <Loading what={what} /> : null : children(data)}
    </>
  );
}
