import { type CreateBody, createSchema, filterableNames, type UpdateBody, updateSchema } from "../../kernel/field.js";
import { type Caller, type Listing, route } from "../../kernel/route.js";
import type { Cloud, Tx } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { sshKeyFields } from "./fields.js";
import { requireSshKey, type SshKeyRow, sshKeyEntity, sshKeyView } from "./ssh-key.js";

const note = (tx: Tx, cloud: Cloud, verb: "add" | "update" | "delete", row: SshKeyRow, caller: Caller | undefined): void =>
  void recordEvent(tx, cloud, { action: `user_ssh_key_${verb}`, entity: sshKeyEntity(row), username: caller?.username ?? null });

const onKey = { path: "/v4/profile/sshkeys/:sshKeyId", scope: "account" } as const;

export const sshKeyRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/profile/sshkeys",
    scope: "account",
    summary: "Lists your public keys.",
    answers: "list",
    shows: "SshKey",
    run: ({ cloud, caller }): Listing<SshKeyRow> => ({
      rows: cloud.store.list("sshKey").filter((row) => row.userId === caller?.userId),
      view: sshKeyView,
      filterable: filterableNames(sshKeyFields),
      fieldValue: (row, name) => row[name as keyof SshKeyRow],
    }),
  }),
  route<Cloud, CreateBody<typeof sshKeyFields>>({
    method: "POST",
    path: "/v4/profile/sshkeys",
    scope: "account",
    summary: "Keeps a public key, for instances that name you in `authorized_users`.",
    body: createSchema(sshKeyFields),
    answers: "one",
    shows: "SshKey",
    run: ({ cloud, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = tx.insert("sshKey", {
          userId: caller?.userId ?? 0,
          label: body.label,
          sshKey: body.sshKey.trim(),
          createdMs: cloud.clock.now(),
        });
        note(tx, cloud, "add", row, caller);
        return sshKeyView(row);
      }),
  }),
  route<Cloud, undefined>({
    ...onKey,
    method: "GET",
    summary: "Reads one of your public keys.",
    answers: "one",
    shows: "SshKey",
    run: ({ cloud, params, caller }) => sshKeyView(requireSshKey(cloud.store, params.sshKeyId, caller?.userId)),
  }),
  route<Cloud, UpdateBody<typeof sshKeyFields>>({
    ...onKey,
    method: "PUT",
    summary: "Renames a public key.",
    body: updateSchema(sshKeyFields),
    answers: "one",
    shows: "SshKey",
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireSshKey(tx, params.sshKeyId, caller?.userId);
        const updated = tx.update("sshKey", row.id, { label: body.label ?? row.label });
        note(tx, cloud, "update", updated, caller);
        return sshKeyView(updated);
      }),
  }),
  route<Cloud, undefined>({
    ...onKey,
    method: "DELETE",
    summary: "Forgets a public key; instances that have it keep it.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireSshKey(tx, params.sshKeyId, caller?.userId);
        tx.remove("sshKey", row.id);
        note(tx, cloud, "delete", row, caller);
      }),
  }),
];
