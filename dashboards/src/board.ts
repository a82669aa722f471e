// What all dashboards have in common: the data source to choose, links to each other, epochs as
// annotations.
import {
  AnnotationQueryBuilder,
  type Dashboard,
  DashboardBuilder,
  DashboardCursorSync,
  DashboardLinkType,
  DashboardLinkBuilder,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  type RowBuilder,
  VariableRefresh,
  VariableSort,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { GATEWAY, TAG } from "./config.ts";
import { DATASOURCE, type Panel } from "./panels.ts";

export interface Board {
  /** The last part of the uid and of the file's name. */
  readonly name: string;
  readonly title: string;
  readonly says: string;
  readonly from: string;
  /** A choice of the gateways' regions, which `located` uses. */
  readonly hasRegions?: boolean;
  readonly rows: readonly { readonly row: RowBuilder; readonly panels: readonly Panel[] }[];
}

/**
 * One annotation for each epoch, at the moment when the first tracker saw it begin. The value of
 * the series is that moment, so that it stands there whatever the step.
 */
export const EPOCHS =
  "min by (epoch, node, cause) (1000 * (timestamp(highwater_epoch_age_seconds) - highwater_epoch_age_seconds) " +
  "* on (job, instance) group_left (epoch, node, cause) highwater_epoch_info)";

export function build(board: Board): Dashboard {
  const built = new DashboardBuilder(`Highwater / ${board.title}`)
    .uid(`highwater-${board.name}`)
    .description(board.says)
    .tags([TAG])
    .readonly()
    .timezone("browser")
    .tooltip(DashboardCursorSync.Crosshair)
    .time({ from: board.from, to: "now" })
    .refresh("10s")
    .link(
      new DashboardLinkBuilder("Highwater")
        .type(DashboardLinkType.Dashboards)
        .tags([TAG])
        .asDropdown(true)
        .keepTime(true)
        .includeVars(true),
    )
    .withVariable(new DatasourceVariableBuilder("datasource").label("Data source").type("prometheus"))
    .annotation(
      new AnnotationQueryBuilder()
        .name("Epochs")
        .datasource(DATASOURCE)
        .enable(true)
        .iconColor("purple")
        .expr(EPOCHS)
        .useValueForTime(true)
        .titleFormat("New epoch on {{node}} ({{cause}})")
        .textFormat("{{epoch}}")
        .tagKeys("cause"),
    );
  if (board.hasRegions === true)
    built.withVariable(
      new QueryVariableBuilder("region")
        .label("Region of the gateway")
        .datasource(DATASOURCE)
        .query(`label_values(highwater_service_info{service="${GATEWAY}"}, region)`)
        .refresh(VariableRefresh.OnTimeRangeChanged)
        .sort(VariableSort.AlphabeticalAsc)
        .multi(true)
        .includeAll(true)
        .allValue(".*")
        .current({ selected: true, text: "All", value: "$__all" }),
    );
  for (const { row, panels } of board.rows) {
    built.withRow(row);
    for (const panel of panels) built.withPanel(panel);
  }
  return built.build();
}
