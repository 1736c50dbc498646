import { invalid } from "../../kernel/fault.js";
import { route } from "../../kernel/route.js";
import type { Cloud } from "../cloud.js";
import { type InstanceRow, requireInstance } from "./instance.js";
import { instanceTransfer, type StatPoint, statPoints } from "./meter.js";
import { typeEntry } from "./rules.js";

const bytesPerGb = 10 ** 9;
const dayMs = 86_400_000;

/** Plans are paid by the month: the quota is the part of it that is left when the instance was made. */
const quotaGb = (cloud: Cloud, row: InstanceRow): number => {
  const now = new Date(cloud.clock.now());
  const fromMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth());
  const toMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1);
  const planGb = typeEntry(cloud, row.type)?.transfer ?? 0;
  return Math.round((planGb * (toMs - Math.max(fromMs, row.createdMs))) / (toMs - fromMs));
};

/** A month of the calendar, or the reason why it is none. */
const monthOf = (params: Record<string, number>): { year: number; month: number } => {
  const { year = 0, month = 0 } = params;
  if (year < 2000 || year > 9999) throw invalid("Must be 2000-9999", "year");
  if (month > 12) throw invalid("Must be 1-12", "month");
  return { year, month };
};

const statsView = (cloud: Cloud, row: InstanceRow, points: readonly StatPoint[], span: string) => {
  if (points.length === 0) throw invalid("Stats are unavailable at this time.");
  const line = (value: (point: StatPoint) => number | undefined): Array<[number, number]> =>
    points.flatMap((point) => {
      const measured = value(point);
      return measured === undefined ? [] : [[point.atMs, Math.round(measured * 100) / 100]];
    });
  const minutes = Math.round(cloud.clock.simulated(5) * 100) / 100;
  return {
    title: `Backlot - ${row.label} (instance${row.id}) - ${span} (${minutes} min avg)`,
    data: {
      cpu: line(({ cpu }) => cpu),
      io: { io: line(({ io }) => io), swap: line(() => 0) },
      netv4: {
        in: line(({ network }) => network?.in),
        out: line(({ network }) => network?.out),
        privateIn: line(({ network }) => network?.privateIn),
        privateOut: line(({ network }) => network?.privateOut),
      },
      netv6: { in: [], out: [], privateIn: [], privateOut: [] },
    },
  };
};

export const meterRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/cloud/instances/:instanceId/transfer",
    scope: "instances",
    summary: "This month's public traffic: bytes used, and quota and overuse in GB.",
    answers: "one",
    run: ({ cloud, params }) => {
      const row = requireInstance(cloud.store, params.instanceId);
      const now = new Date(cloud.clock.now());
      const { bytesTotal } = instanceTransfer(cloud.store, row.id, now.getUTCFullYear(), now.getUTCMonth() + 1);
      const quota = quotaGb(cloud, row);
      return { used: bytesTotal, quota, billable: Math.max(0, Math.floor(bytesTotal / bytesPerGb) - quota) };
    },
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/cloud/instances/:instanceId/transfer/:year/:month",
    scope: "instances",
    summary: "The public traffic of one calendar month (UTC), in bytes.",
    answers: "one",
    run: ({ cloud, params }) => {
      const row = requireInstance(cloud.store, params.instanceId);
      const { year, month } = monthOf(params);
      return instanceTransfer(cloud.store, row.id, year, month);
    },
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/cloud/instances/:instanceId/stats",
    scope: "instances",
    summary: "Measured processor, disk and network use of the last day.",
    answers: "one",
    run: ({ cloud, params }) => {
      const row = requireInstance(cloud.store, params.instanceId);
      const now = cloud.clock.now();
      return statsView(cloud, row, statPoints(cloud.store, row.id, now - dayMs, now + 1), "day");
    },
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/cloud/instances/:instanceId/stats/:year/:month",
    scope: "instances",
    summary: "The same of one calendar month (UTC), as far as it is remembered.",
    answers: "one",
    run: ({ cloud, params }) => {
      const row = requireInstance(cloud.store, params.instanceId);
      const { year, month } = monthOf(params);
      return statsView(cloud, row, statPoints(cloud.store, row.id, Date.UTC(year, month - 1), Date.UTC(year, month)), `${year}-${month}`);
    },
  }),
];
