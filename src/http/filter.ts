import { Fault, type Problem } from "../kernel/fault.js";
import type { Listing } from "../kernel/route.js";
import { snake } from "../kernel/snake.js";
import { parseJson } from "./body.js";

type ValueOf = (name: string) => unknown;
type Condition = (fieldValue: ValueOf) => boolean;

interface Selection {
  matches: Condition;
  /** Our name of the field to order by. */
  orderBy: string | undefined;
  descending: boolean;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

const comparable = (a: unknown, b: unknown): a is number | string =>
  (typeof a === "number" && typeof b === "number") || (typeof a === "string" && typeof b === "string");

const containsText = (held: unknown, wanted: unknown): boolean =>
  typeof held === "string" && typeof wanted === "string" && held.toLowerCase().includes(wanted.toLowerCase());

/** All operators of contract 5.2 on one value. */
const operators: Record<string, (held: unknown, wanted: unknown) => boolean> = {
  "+gt": (held, wanted) => comparable(held, wanted) && held > (wanted as typeof held),
  "+gte": (held, wanted) => comparable(held, wanted) && held >= (wanted as typeof held),
  "+lt": (held, wanted) => comparable(held, wanted) && held < (wanted as typeof held),
  "+lte": (held, wanted) => comparable(held, wanted) && held <= (wanted as typeof held),
  "+contains": containsText,
};

/** A list matches when it holds a value that does (contract 5.2); "not equal" when it holds none. */
const holds = (held: unknown, test: (value: unknown) => boolean): boolean => (Array.isArray(held) ? held.some(test) : test(held));

const fieldConditions = (name: string, wanted: unknown, refuse: (reason: string) => void): Condition[] => {
  if (!isObject(wanted)) return [(fieldValue) => holds(fieldValue(name), (held) => held === wanted)];
  if (Object.keys(wanted).length === 0) refuse("An operator is needed inside the object of a field.");
  return Object.entries(wanted).flatMap(([operator, operand]): Condition[] => {
    if (operator === "+neq") return [(fieldValue) => !holds(fieldValue(name), (held) => held === operand)];
    const test = Object.hasOwn(operators, operator) ? operators[operator] : undefined;
    if (test) return [(fieldValue) => holds(fieldValue(name), (held) => test(held, operand))];
    refuse(`No operator is called ${operator.slice(0, 40)}.`);
    return [];
  });
};

/** Compiles an `X-Filter` object (description 4.2, contract 5.2). Every problem is found before one fault is thrown. */
const selectionOf = (filter: Record<string, unknown>, filterable: readonly string[]): Selection => {
  const ours = new Map(filterable.map((name) => [snake(name), name]));
  const problems: Problem[] = [];
  const refuse = (reason: string): void => void problems.push({ reason, field: "X-Filter" });
  let orderBy: string | undefined;
  let descending = false;
  let ordered = false;

  const ourName = (wire: string): string | undefined => {
    const name = ours.get(wire);
    if (name === undefined) refuse(`Cannot filter on ${wire.slice(0, 60)}`);
    return name;
  };
  const group = (operator: string, members: unknown): Condition => {
    if (!Array.isArray(members) || !members.every(isObject)) {
      refuse(`${operator} takes a list of filters.`);
      return () => true;
    }
    const parts = members.map(conditionOf);
    return operator === "+or" ? (fieldValue) => parts.some((part) => part(fieldValue)) : (fieldValue) => parts.every((part) => part(fieldValue));
  };
  const conditionOf = (object: Record<string, unknown>): Condition => {
    const parts: Condition[] = [];
    for (const [key, value] of Object.entries(object)) {
      if (key === "+and" || key === "+or") parts.push(group(key, value));
      else if (key === "+order_by") orderBy = typeof value === "string" ? ourName(value) : void refuse("+order_by takes a field's name.");
      else if (key === "+order") {
        ordered = true;
        if (value !== "asc" && value !== "desc") refuse("+order takes asc or desc.");
        descending = value === "desc";
      } else if (key.startsWith("+")) refuse(`No operator is called ${key.slice(0, 40)}.`);
      else {
        const name = ourName(key);
        if (name !== undefined) parts.push(...fieldConditions(name, value, refuse));
      }
    }
    return (fieldValue) => parts.every((part) => part(fieldValue));
  };

  const matches = conditionOf(filter);
  if (ordered && !Object.hasOwn(filter, "+order_by") && orderBy === undefined) refuse("+order needs +order_by beside it.");
  const text = JSON.stringify(filter);
  if (text.includes('"entity.id"') && !text.includes('"entity.type"')) refuse("A filter on entity.id needs entity.type beside it.");
  if (problems.length > 0) throw new Fault("invalid", problems);
  return { matches, orderBy, descending };
};

const inOrder = (a: unknown, b: unknown): number => {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return a < b ? -1 : 1;
};

/** The rows that an `X-Filter` header selects, in its order; all of them without a header. `heard` turns a dialect's names into ours. */
export const selected = <R>(listing: Listing<R>, header: string | undefined, heard: (filter: unknown) => unknown): readonly R[] => {
  if (header === undefined || header.trim() === "") return listing.rows;
  const filter = heard(parseJson(header, "X-Filter"));
  if (!isObject(filter)) throw new Fault("invalid", [{ reason: "Must be a JSON object.", field: "X-Filter" }]);
  const { matches, orderBy, descending } = selectionOf(filter, listing.filterable);
  const rows = listing.rows.filter((row) => matches((name) => listing.fieldValue(row, name)));
  if (orderBy === undefined) return rows;
  const keyed = rows.map((row) => ({ row, key: listing.fieldValue(row, orderBy) }));
  keyed.sort((a, b) => inOrder(a.key, b.key) * (descending ? -1 : 1));
  return keyed.map((entry) => entry.row);
};
