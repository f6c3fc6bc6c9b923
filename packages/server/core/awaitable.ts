/** Uses a value without waiting when it is there already: an engine in this process answers without a promise. */

export type Awaitable<T> = T | Promise<T>;

/** `use(value)`, now or when the promise settles. An error of `use` is thrown now, or rejects. */
export function after<T, R>(value: Awaitable<T>, use: (value: T) => Awaitable<R>): Awaitable<R> {
  return value instanceof Promise ? value.then(use) : use(value);
}
