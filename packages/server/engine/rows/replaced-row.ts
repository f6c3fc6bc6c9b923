/** The row of a node that was made anew, because a wrong bit in the key of the older row hid that one. */
const READY = 1;
const HELD = ['child_ref_count', 'root_ref_count', 'held_domain_count', 'lease_expires_at'];

/** Whether the older row may go: the new one is ready, and holds as much. A recount raises its counts first. */
export function replaces(
  stands: Readonly<Record<string, unknown>>,
  older: Readonly<Record<string, unknown>>,
): boolean {
  return (
    Number(stands.state) === READY && HELD.every((column) => Number(stands[column]) >= Number(older[column]))
  );
}
