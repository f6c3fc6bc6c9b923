/** A term of a list of facts, and what somebody else wrote as its value. */
import { printable } from './format.ts';

export function Fact({ label, value }: { readonly label: string; readonly value: string }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>
        <bdi>{printable(value)}</bdi>
      </dd>
    </div>
  );
}
